# code: BS208
# variable: Op
# cause: return g, g.sum()
# fix: return g, g.sum(0)
import torch


class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, g):
        return g, g.sum()


a = torch.randn(4, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
Op.apply(a, b).sum().backward()
