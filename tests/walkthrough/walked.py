"""Programs whose backward passes are walked: each function returns a loss with a graph, always the same."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def mean_squared_error():
    torch.manual_seed(0)
    x, target = torch.randn(2, 3), torch.randn(2, 4)
    weight, bias = torch.randn(4, 3, requires_grad=True), torch.randn(4, requires_grad=True)
    return ((x @ weight.t() + bias - target) ** 2).mean()


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + x)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.layer1 = nn.Sequential(Block(8), Block(8))
        self.pool = nn.MaxPool2d(2)
        self.layer2 = nn.Sequential(Block(8), Block(8))
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        x = self.layer2(self.pool(self.layer1(self.stem(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def residual():
    torch.manual_seed(0)
    return F.cross_entropy(Residual()(torch.randn(4, 3, 8, 8)), torch.tensor([1, 2, 3, 4]))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=3,
        n_embd=32,
        n_head=4,
        vocab_size=50,
        n_positions=32,
        bos_token_id=0,
        eos_token_id=0,
        loss_type="ForCausalLM",
    )
    ids = torch.randint(0, 50, (2, 12))
    return GPT2LMHeadModel(config)(ids, labels=ids).loss


def lstm():
    torch.manual_seed(0)
    cell = nn.LSTM(5, 7, num_layers=2, bidirectional=True, batch_first=True)
    out, (h, _) = cell(torch.randn(3, 6, 5))
    return out.pow(2).mean() + h.sum() * 0.1


def unrolled_lstm_cell():
    torch.manual_seed(0)
    cell, head = nn.LSTMCell(4, 6), nn.Linear(6, 1)
    h = c = torch.zeros(3, 6)
    loss = torch.zeros(())
    for x in torch.randn(8, 3, 4):
        h, c = cell(x, (h, c))
        loss = loss + head(h).pow(2).mean()
    return loss


def transformer():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True)
    return layer(torch.randn(2, 5, 16)).pow(2).mean()


class Scaled(torch.autograd.Function):
    """Two results, an argument that is no tensor, a tensor that needs no gradient."""

    @staticmethod
    def forward(ctx, x, factor, other, y):
        ctx.save_for_backward(x, other, y)
        ctx.factor = factor
        return factor * x * other, x + y * y

    @staticmethod
    def backward(ctx, g, h):
        _, other, y = ctx.saved_tensors
        return ctx.factor * g * other + h, None, None, 2 * h * y


class Unmaterialised(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return 2 * x, 3 * x

    @staticmethod
    def backward(ctx, g, h):
        assert g is None or h is None, "the engine gives None, so must a walk"
        return 2 * g if h is None else 3 * h


def custom_function():
    torch.manual_seed(0)
    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    a, b = Scaled.apply(x * 2, 1.5, torch.randn(3), y)
    return (a * b.sin()).sum()


def custom_function_with_an_unused_result():
    torch.manual_seed(0)
    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    return Scaled.apply(x * 2, 1.5, torch.randn(3), y)[1].sum()


def custom_function_that_wants_none():
    torch.manual_seed(0)
    return Unmaterialised.apply(torch.randn(3, requires_grad=True) * 2)[1].sin().sum()


def checkpointed():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 4))
    x = torch.randn(3, 4, requires_grad=True)
    for _ in range(3):
        x = checkpoint(net, x, use_reentrant=False)
    return x.pow(2).mean()


def in_place_views():
    torch.manual_seed(0)
    x, y = torch.randn(4, 5, requires_grad=True), torch.randn(5, requires_grad=True)
    z = x * 2
    z[1] = y.sin()
    z[:, 2].mul_(3)
    z.view(-1)[7:9].add_(y[:2])
    return z.relu_().pow(2).sum()


def many_paths():
    torch.manual_seed(0)
    x = torch.randn(6, requires_grad=True)
    y = x * x + x
    for _ in range(5):
        y = y * y.sigmoid() + x / (1 + y.abs()) + y
    return y.logsumexp(0)


def half_precision():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return net(torch.randn(4, 8)).float().pow(2).mean()


def sparse_embedding():
    torch.manual_seed(0)
    table = nn.Embedding(10, 4, sparse=True)
    return (table(torch.tensor([1, 2, 2])) * table(torch.tensor([2, 3, 4]))).sum()


def tied_weights():
    torch.manual_seed(0)
    table = nn.Embedding(10, 4)
    return F.cross_entropy(F.linear(table(torch.tensor([1, 2, 2])).tanh(), table.weight), torch.tensor([2, 3, 4]))


def complex_inside():
    torch.manual_seed(0)
    x = torch.randn(8, requires_grad=True)
    return torch.fft.fft(x * torch.exp(1j * x)).abs().pow(2).sum()


PROGRAMS = {
    f.__name__: f
    for f in (
        mean_squared_error,
        residual,
        gpt2,
        lstm,
        unrolled_lstm_cell,
        transformer,
        custom_function,
        custom_function_with_an_unused_result,
        custom_function_that_wants_none,
        checkpointed,
        in_place_views,
        many_paths,
        half_precision,
        sparse_embedding,
        tied_weights,
        complex_inside,
    )
}
