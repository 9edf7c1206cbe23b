import torch


class RunningMax(torch.autograd.Function):
    """Cumulative max along dim 1; each output's gradient goes to the place where the max was."""

    @staticmethod
    def forward(ctx, x):
        v, i = x.cummax(dim=1)
        ctx.save_for_backward(i)
        return v

    @staticmethod
    def backward(ctx, g):
        (i,) = ctx.saved_tensors
        return torch.zeros_like(g).scatter_add_(1, i, g)


def f(price, w):
    p = (price * w).cumsum(1)
    draw = RunningMax.apply(p) - p
    return draw.pow(2).sum()


def inputs():
    g = torch.Generator().manual_seed(42)
    price = torch.randn(3, 9, generator=g, requires_grad=True)
    w = (1 + torch.rand(9, generator=g)).requires_grad_()
    return price, w
