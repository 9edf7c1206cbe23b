# code: BS207
# variable: Op
# cause: return 2 * g, g.sum()
# fix: Return 1 value only, or pass
import torch


class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k=2, mode=None):
        return k * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g, g.sum()


a = torch.randn(4, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
Op.apply(a).sum().backward()
