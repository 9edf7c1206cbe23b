# code: BS207
# variable: Op
# cause: def backward(ctx, g):
# fix: End backward with a return of
import torch


class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, g):
        g = g * 2


a = torch.randn(4, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
Op.apply(a, b).sum().backward()
