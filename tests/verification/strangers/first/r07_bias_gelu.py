import math
import torch


class BiasGELU(torch.autograd.Function):
    """Fused bias + exact GELU. The gradient of the bias is returned at full shape:
    autograd sums it to the bias' shape."""

    @staticmethod
    def forward(ctx, x, b):
        u = x + b
        ctx.save_for_backward(u)
        return 0.5 * u * (1 + torch.erf(u / math.sqrt(2)))

    @staticmethod
    def backward(ctx, g):
        (u,) = ctx.saved_tensors
        cdf = 0.5 * (1 + torch.erf(u / math.sqrt(2)))
        pdf = torch.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
        gu = g * (cdf + u * pdf)
        return gu, gu


def f(x, w, b):
    y = BiasGELU.apply(x @ w, b)
    return y.pow(2).mean()


def inputs():
    g = torch.Generator().manual_seed(37)
    x = torch.randn(6, 4, generator=g, requires_grad=True)
    w = torch.randn(4, 5, generator=g, requires_grad=True)
    b = torch.randn(5, generator=g, requires_grad=True)
    return x, w, b
