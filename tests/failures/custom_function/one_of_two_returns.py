# code: BS207
# variable: Op
# cause: return g
# fix: Compute the gradient of y too
import torch


class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, g):
        if g is None:
            return None, None
        return g


a = torch.randn(4, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
Op.apply(a, b).sum().backward()
