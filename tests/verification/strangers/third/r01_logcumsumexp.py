import torch
import torch.nn.functional as F
from torch.autograd import Function


class LogCumsumExp(Function):
    @staticmethod
    def forward(ctx, x):
        m = x.max(-1, keepdim=True).values
        y = (x - m).exp().cumsum(-1).log() + m
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        # dy_j/dx_i = exp(x_i - y_j) for i <= j
        J = (x.unsqueeze(-1) - y.unsqueeze(-2)).triu().exp().triu()
        return (J @ g.unsqueeze(-1)).squeeze(-1)


def f(x, w):
    return LogCumsumExp.apply(x @ w).pow(2).sum()


def inputs():
    torch.manual_seed(101)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    return x, w
