# code: BS208
# variable: gain
# cause: grad_gain = (grad * ctx.unit).sum(0)
# fix: (grad * ctx.unit).sum((0, 1), keepdim=True)
import torch
from torch import nn


class Gain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain):
        ctx.unit = x / x.norm(dim=1, keepdim=True)
        ctx.gain = gain
        return gain * ctx.unit

    @staticmethod
    def backward(ctx, grad):
        grad_x = grad * ctx.gain
        grad_gain = (grad * ctx.unit).sum(0)
        return grad_x, grad_gain


class Normaliser(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1, 1))

    def forward(self, x):
        return Gain.apply(x, self.gain)


net = nn.Sequential(nn.Linear(3, 4), Normaliser(), nn.Linear(4, 1))
net(torch.randn(5, 3)).sum().backward()
