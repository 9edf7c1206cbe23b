# code: BS209
# variable: flat
# cause: flat.mul_(2)
# fix: with .clone()
# varied: return x.view(-1)
# or: return x
import torch


class Flat(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, g):
        return g.view(3, 2)


def f():
    x = torch.nn.Linear(2, 2)(torch.randn(3, 2))
    flat = Flat.apply(x)
    flat.mul_(2)


f()
