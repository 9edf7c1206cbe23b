# code: BS215
# variable: Drop
# cause: @once_differentiable
# fix: save in forward what kept came from
import torch
from torch.autograd.function import once_differentiable


class Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        kept = x * (torch.rand_like(x) < 0.5)
        ctx.save_for_backward(kept)
        return kept * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (kept,) = ctx.saved_tensors
        return 2 * g * kept


x = torch.randn(3, requires_grad=True)
(slope,) = torch.autograd.grad((Drop.apply(x) * x).sum(), x, create_graph=True)
slope.square().sum().backward()
