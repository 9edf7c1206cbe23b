# code: BS200
# variable: Shift.apply(x * 2)
# cause: return torch.zeros_like(x) + x
# fix: write `x = x.add(1, alpha=2)` on line 13
import torch


class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        # moved by two
        x.add_(1, alpha=2)
        return torch.zeros_like(x) + x

    @staticmethod
    def backward(ctx, g):
        return g


x = torch.randn(4, requires_grad=True)
Shift.apply(x * 2).sum().backward()
