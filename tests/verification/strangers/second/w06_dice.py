import torch

MASK = (torch.rand(3, 20, generator=torch.Generator().manual_seed(60)) > 0.6).double()


class SoftDice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, p, t, smooth):
        inter = (p * t).sum(1)
        union = p.sum(1) + t.sum(1)
        ctx.save_for_backward(t, inter, union)
        ctx.smooth = smooth
        return 1 - (2 * inter + smooth) / (union + smooth)

    @staticmethod
    def backward(ctx, g):
        t, inter, union = ctx.saved_tensors
        den = union + ctx.smooth
        dp = -(2 * t * den[:, None] - 2 * inter[:, None]) / den[:, None] ** 2
        return g[:, None] * dp, None, None


def f(x):
    p = torch.sigmoid(x)
    return SoftDice.apply(p, MASK.to(p), 1.0).mean()


def inputs():
    g = torch.Generator().manual_seed(6)
    return (torch.randn(3, 20, generator=g, dtype=torch.float64, requires_grad=True),)
