# code: BS207
# variable: Op
# cause: return None, 2 * g
# fix: Drop the None for ctx, which
import torch


class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return None, 2 * g


a = torch.randn(4, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
Op.apply(a).sum().backward()
