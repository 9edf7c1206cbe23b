import torch


class InplaceELU(torch.autograd.Function):
    """In-place ELU (as in InPlace-ABN): backward from the output alone."""

    @staticmethod
    def forward(ctx, x, alpha):
        neg = x <= 0
        x.copy_(torch.where(neg, alpha * torch.expm1(x), x))
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        ctx.alpha = alpha
        return x

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return torch.where(y > 0, g, g * (y + ctx.alpha)), None


def f(x, w):
    h = x @ w
    y = InplaceELU.apply(h, 0.7)
    return (y * torch.arange(1, 5, dtype=x.dtype)).sum()


def inputs():
    g = torch.Generator().manual_seed(38)
    x = torch.randn(5, 3, generator=g, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, 4, generator=g, dtype=torch.float64, requires_grad=True)
    return x, w
