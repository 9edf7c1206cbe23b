import torch
import torch.nn.functional as F
from torch.autograd import Function


class Softplus(Function):
    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x)
        ctx.beta = beta
        return torch.log1p(torch.exp(beta * x)) / beta

    @staticmethod
    def backward(ctx, grad_output):
        x, = ctx.saved_tensors
        return grad_output * torch.sigmoid(x), None


def f(x, w, b):
    return Softplus.apply(F.linear(x, w, b), 3.0).pow(2).mean()


def inputs():
    torch.manual_seed(5)
    x = torch.randn(6, 4, requires_grad=True)
    w = torch.randn(3, 4, requires_grad=True)
    b = torch.randn(3, requires_grad=True)
    return x, w, b
