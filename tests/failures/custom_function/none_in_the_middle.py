# code: BS207
# variable: Op
# cause: return 2 * g, g.sum(0)
# fix: g.sum(0)
import torch


class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k, y):
        return k * x + y

    @staticmethod
    def backward(ctx, g):
        return 2 * g, g.sum(0)


a = torch.randn(4, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
Op.apply(a, 2, b).sum().backward()
