"""What operators allocate inside of themselves is in a forecast; what cannot be tried is said, with a bound."""

from functools import partial

import pytest
import torch
from steps import peak_of
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint

from backsight.memory import forecast
from backsight.memory.inside import Inside
from backsight.memory.probe import Probe, extrapolated

aten = torch.ops.aten
ADAMW = partial(torch.optim.AdamW, lr=1e-3)


class Squared(nn.Sequential):
    """Layers, and the mean of the squares of what they return."""

    def forward(self, *given):
        result = super().forward(*given)
        return (result[0] if isinstance(result, tuple) else result).square().mean()


class Reentrant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        blocks = (nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(3))
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        return x.square().mean()


class Sums(nn.Module):
    """Gradients that autograd adds up: of a residual, of a tensor used twice, of a tied weight, of rows and places."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.layer = nn.Embedding(500, 128), nn.Linear(128, 128)
        self.positions = nn.Parameter(torch.randn(900, 128))

    def forward(self, words):
        x = self.words(words) + self.positions[words]
        x = x + self.layer(x).tanh() + x.exp() + x.sin()
        y = x * 1.5
        z = (y * y).sum(0)
        best = (z @ self.words.weight.t()).max(1).values
        return best.mean() + z.gather(1, words[:, :4] % 128).mean() + z.index_select(0, words[0] % len(z)).mean()


class TwoSums(nn.Module):
    """What one gradient flows into twice stays as it is until both have read it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(700, 700))

    def forward(self, x):
        y = x @ self.weight
        return (y + y.cos() + (y + y.sigmoid())).mean()


def word_vectors() -> nn.Module:
    class Vectors(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.near, self.far = (nn.Embedding(2000, 48, sparse=True) for _ in range(2))

        def forward(self, near, far):
            return F.softplus(-torch.einsum("bd,bkd->bk", self.near(near), self.far(far))).mean()

    return Vectors()


def of_transformers(kind: str, **shape: object) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    model: nn.Module = getattr(transformers, kind.partition("For")[0] + "ForCausalLM")(
        getattr(transformers, kind.partition("For")[0] + "Config")(vocab_size=300, **shape)
    )
    return model


def labelled(*shape: int) -> dict[str, torch.Tensor]:
    drawn = torch.randint(0, 300, shape)
    return {"input_ids": drawn, "labels": drawn}


def convolutions_of_sound() -> nn.Module:
    first, second = nn.Conv1d(64, 128, 3, padding=1, groups=4), nn.Conv1d(128, 128, 7, padding=3, groups=8)
    last = weight_norm(nn.Conv1d(128, 1, 3, padding=1))
    return Squared(weight_norm(first), nn.LeakyReLU(0.1), weight_norm(second), nn.LeakyReLU(0.1), last)


def generator() -> nn.Module:
    def up(before: int, after: int) -> nn.Module:
        return nn.ConvTranspose2d(before, after, 4, 2, 1)

    return Squared(nn.Unflatten(1, (64, 4, 4)), up(64, 64), nn.BatchNorm2d(64), nn.ReLU(), up(64, 32), nn.Tanh())


CASES = {
    "LSTM of two layers": lambda: (Squared(nn.LSTM(32, 48, 2)), torch.randn(12, 8, 32), ADAMW),
    "LSTM both ways": lambda: (Squared(nn.LSTM(64, 64, 2, bidirectional=True)), torch.randn(30, 16, 64), ADAMW),
    "LSTM over a long text": lambda: (Squared(nn.LSTM(32, 64, batch_first=True)), torch.randn(16, 400, 32), ADAMW),
    "LSTM, large": lambda: (Squared(nn.LSTM(256, 512, 2)), torch.randn(50, 16, 256), ADAMW),
    "LSTM with projections": lambda: (Squared(nn.LSTM(48, 96, 2, proj_size=32)), torch.randn(25, 8, 48), ADAMW),
    "GRU both ways": lambda: (Squared(nn.GRU(48, 64, 2, bidirectional=True)), torch.randn(40, 8, 48), ADAMW),
    "grouped Conv1d with weight norm": lambda: (convolutions_of_sound(), torch.randn(4, 64, 512), ADAMW),
    "Conv3d": lambda: (
        Squared(nn.Conv3d(1, 16, 3, padding=1), nn.BatchNorm3d(16), nn.ReLU(), nn.Conv3d(16, 32, 3, stride=2)),
        torch.randn(2, 1, 16, 32, 32),
        ADAMW,
    ),
    "ConvTranspose2d": lambda: (generator(), torch.randn(16, 1024), ADAMW),
    "ConvTranspose3d with pooling": lambda: (
        Squared(nn.ConvTranspose3d(16, 8, 3, padding=1), nn.MaxPool3d(2), nn.Conv3d(8, 4, 1)),
        torch.randn(2, 16, 6, 12, 12),
        ADAMW,
    ),
    "convolutions of a large batch": lambda: (
        Squared(nn.Conv2d(16, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2)),
        torch.randn(32, 16, 56, 56),
        ADAMW,
    ),
    "Mamba": lambda: (of_transformers("Mamba", hidden_size=64, num_hidden_layers=2), labelled(2, 40), ADAMW),
    "Llama with Adafactor": lambda: (
        of_transformers("Llama", hidden_size=128, intermediate_size=344, num_hidden_layers=3, num_attention_heads=4),
        labelled(8, 64),
        torch.optim.Adafactor,
    ),
    "sparse EmbeddingBag": lambda: (
        Squared(nn.EmbeddingBag(5000, 64, sparse=True)),
        torch.randint(0, 5000, (64, 20)),
        partial(torch.optim.SGD, lr=0.1),
    ),
    "sparse rows, none twice": lambda: (
        word_vectors(),
        (torch.randperm(2000)[:256], torch.randperm(2000)[:1536].view(256, 6)),
        torch.optim.SparseAdam,
    ),
    "reentrant checkpoints": lambda: (Reentrant(), torch.randn(512, 256, requires_grad=True), ADAMW),
    "sums of gradients": lambda: (Sums(), torch.randint(0, 500, (32, 64)), partial(torch.optim.SGD, lr=0.1)),
    "a gradient that is read twice": lambda: (TwoSums(), torch.randn(700, 700), partial(torch.optim.SGD, lr=0.1)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_forecast_is_within_a_thousandth_of_the_allocator(name):
    torch.manual_seed(0)
    model, batch, make = CASES[name]()
    optimizer = make(model.parameters())
    foretold = forecast(model, batch, optimizer, device="cpu", variants=False)
    inputs = tuple(batch.values()) if isinstance(batch, dict) else batch if isinstance(batch, tuple) else (batch,)

    def step():
        output = model(**batch) if isinstance(batch, dict) else model(*inputs)
        loss = getattr(output, "loss", output)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    def held():
        yield from (*model.parameters(), *model.buffers(), *inputs)
        yield from (each.grad for each in inputs if each.grad is not None)
        yield from (v for state in optimizer.state.values() for v in state.values() if torch.is_tensor(v))

    assert foretold.peak == pytest.approx(peak_of(step, held()), rel=5e-3 if "rows" in name else 1e-3)
    assert [note for note in foretold.notes if "Sparse" not in note] == []


def test_rows_that_come_twice_are_counted_twice_and_the_forecast_says_so():
    words = torch.randint(0, 2000, (256,)), torch.randint(0, 2000, (256, 6))
    model = word_vectors()
    foretold = forecast(model, words, torch.optim.SparseAdam, device="cpu")
    assert "Sparse gradients are counted as if no row appeared twice in a batch" in str(foretold)
    once = forecast(model, (torch.arange(256), words[1] * 0), torch.optim.SparseAdam, device="cpu")
    assert once.peak == foretold.peak, "values are not known to a forecast"


# Operators, tried


def test_a_probe_tells_scratch_results_and_what_is_no_memory_of_its_own():
    with torch.no_grad():
        x = torch.zeros(4, 3).t()
        layer_norm = Probe.of(aten.native_layer_norm.default, (x, [4], None, None, 1e-5), {})
    assert layer_norm.scratch == 48, "a contiguous copy of the input"
    assert [each.bytes for each in layer_norm.results] == [48, 12, 12]
    assert Probe.of(aten.add_.Tensor, (torch.zeros(3), torch.zeros(3)), {}).results == (None,)


def test_what_a_probe_is_given_stays_as_it_is():
    x = torch.ones(3)
    Probe.of(aten.mul_.Tensor, (x, x), {})
    assert x.tolist() == [1, 1, 1]


def test_a_long_batch_is_extrapolated_from_two_short_ones():
    def tried(length: int) -> Probe:
        x, weight = torch.zeros(length, 16, 20, 20), torch.zeros(32, 16, 3, 3)
        numbers = [[1, 1], [0, 0], [1, 1], False, [0, 0], 1]
        return Probe.of(aten.convolution.default, (x, weight, None, *numbers), {})

    assert extrapolated(tried(8), tried(16), (8, 16, 40)) == tried(40)


@torch.library.custom_op("backsight_tests::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    """Allocates inside; it is somebody else's, and is not run for a forecast."""
    assert not torch.equal(x, x * 0), "a forecast has run it"
    return x + 1


@opaque.register_fake
def _(x):
    return torch.empty_like(x)


class Opaque(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.layer, self.size = nn.Linear(64, 64), size

    def forward(self, x):
        return self.layer(x).mean() + opaque(x.detach().repeat(self.size, 1)).mean()


def test_an_operator_of_somebody_else_is_not_run_and_the_forecast_has_a_bound():
    large = forecast(Opaque(64), torch.randn(16, 64), device="cpu", variants=False)
    note = next(each for each in large.notes if "backsight_tests::opaque" in each)
    assert "is unknown. If each copies its arguments and results once, the peak is" in note
    assert note in " ".join(str(large).split())
    small = forecast(Opaque(1), torch.randn(16, 64), device="cpu", variants=False)
    assert small.notes == (), "what it could take is below the peak, which is elsewhere"


def test_beside_a_profiler_nothing_can_be_tried_and_the_forecast_says_so():
    model, x = Squared(nn.LSTM(8, 8)), torch.randn(5, 2, 8)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        foretold = forecast(model, x, device="cpu", variants=False)
    assert any("measuring it needs PyTorch's profiler, which is already running" in note for note in foretold.notes)
    assert foretold.peak < forecast(model, x, device="cpu", variants=False).peak


def test_a_forecast_leaves_the_random_numbers_of_the_program_as_they_are():
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    forecast(Squared(nn.Linear(8, 8), nn.Dropout()), torch.randn(4, 8) * 0, device="cpu")
    torch.manual_seed(3)
    forecast(Squared(nn.Linear(8, 8), nn.Dropout()), torch.zeros(4, 8), device="cpu")
    torch.manual_seed(3)
    assert torch.equal(torch.rand(3), expected)


def test_each_form_of_an_operator_is_tried_once(monkeypatch):
    tried = []
    monkeypatch.setattr(Probe, "of", classmethod(lambda cls, *call: tried.append(call[0]) or cls(0, ())))
    inside, x = Inside(), torch.zeros(4, 3).t()
    for given in (x, x, torch.zeros(8, 3).t()):
        inside.of(aten.native_layer_norm.default, (given, [given.shape[1]], None, None, 1e-5), {}, given)
    assert len(tried) == 2
