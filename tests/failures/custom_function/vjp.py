# code: BS207
# variable: Op
# cause: return 2 * g
# fix: Return None for each argument that
import torch


class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        return k * x

    @staticmethod
    def vjp(ctx, g):
        return 2 * g


a = torch.randn(4, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
Op.apply(a, 2).sum().backward()
