# code: BS207
# variable: Op
# cause: return g
# fix: Compute the gradient of xs[1] too
import torch


class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return xs[0] + xs[1]

    @staticmethod
    def backward(ctx, g):
        return g


a = torch.randn(4, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
Op.apply(a, b).sum().backward()
