# code: BS208
# variable: step
# cause: grad_step = ctx.factor * (grad * slope).sum()
# fix: write `grad_step = ctx.factor * (grad * slope).sum(1, keepdim=True)`
import torch
from torch import nn


class Quantise(torch.autograd.Function):
    """Rounds to multiples of a learnt step, one for each row."""

    @staticmethod
    def forward(ctx, w, step):
        ctx.save_for_backward(w, step)
        ctx.factor = w.numel() ** -0.5
        return (w / step).round() * step

    @staticmethod
    def backward(ctx, grad):
        w, step = ctx.saved_tensors
        slope = (w / step).round() - w / step
        grad_step = ctx.factor * (grad * slope).sum()
        return grad, grad_step


class Layer(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs))
        self.step = nn.Parameter(torch.full((outputs, 1), 0.1))

    def forward(self, x):
        return x @ Quantise.apply(self.weight, self.step).T


layer = Layer(5, 3)
layer(torch.randn(2, 5)).square().mean().backward()
