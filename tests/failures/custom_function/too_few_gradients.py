# code: BS207
# variable: Quantise
# cause: return grad_output
# fix: None
import torch
from torch import nn


class Quantise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bits, symmetric):
        levels = 2**bits - 1
        return torch.round(x.clamp(-1, 1) * levels) / levels

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


class QuantLinear(nn.Linear):
    def forward(self, x):
        return nn.functional.linear(x, Quantise.apply(self.weight, 4, True), self.bias)


model = nn.Sequential(QuantLinear(4, 8), nn.ReLU(), QuantLinear(8, 1))
model(torch.randn(3, 4)).sum().backward()
