# code: BS208
# variable: Op
# cause: return None, g[0]
# fix: Return one gradient for each entry
# varied: Op.apply(2, a).sum().backward()
# or: Op.apply(torch.ones(1), a).sum().backward()
import torch


class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, k, x):
        return k * x

    @staticmethod
    def backward(ctx, g):
        return None, g[0]


a = torch.randn(4, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
Op.apply(2, a).sum().backward()
