import torch
import torch.nn.functional as F


class MishME(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.tanh(F.softplus(x))

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        n = torch.exp(-x.abs())
        # tanh(log(1+e^x)) = (e^2x + 2 e^x) / (e^2x + 2 e^x + 2)
        t = torch.where(x >= 0, (1 + 2 * n) / (1 + 2 * n + 2 * n * n), (n * n + 2 * n) / (n * n + 2 * n + 2))
        return g * (t + x * torch.sigmoid(x) * (1 - t * t))


def f(x, w, b):
    return MishME.apply(F.conv1d(x, w, b)).mean(-1).pow(2).sum()


def inputs():
    torch.manual_seed(104)
    return (2 * torch.randn(2, 3, 10), torch.randn(4, 3, 3, requires_grad=True), torch.randn(4, requires_grad=True))
