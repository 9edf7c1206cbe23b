# code: BS207
# variable: Op
# cause: return g
# fix: Compute the gradient of y too
# or: if g is None:\n    return None, None\nreturn g
# or: g = g * 2
import torch


class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, g):
        return g


a = torch.randn(4, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
Op.apply(a, b).sum().backward()
