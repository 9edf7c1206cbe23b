# code: BS208
# variable: Op
# cause: return g
# fix: return g.reshape(ctx.x_shape)
import torch


class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, g):
        return g


a = torch.randn(4, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
Op.apply(a).sum().backward()
