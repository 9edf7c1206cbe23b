"""A custom activation whose forward takes two arguments and whose backward returns one gradient.

What is wrong: backward must return one value for each argument of forward (after ctx), also for `slope`,
               which needs no gradient.
PyTorch says:  function SlopedReLUBackward returned an incorrect number of gradients (expected 2, got 1)
Fix:          `return torch.where(x > 0, grad_output, ctx.slope * grad_output), None`
"""

import torch
import torch.nn.functional as F
from torch import nn


class SlopedReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        return torch.where(x > 0, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, grad_output, ctx.slope * grad_output)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(10, 32)
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        return self.out(SlopedReLU.apply(self.hidden(x), 0.1))


torch.manual_seed(0)
model = Net()
loss = F.mse_loss(model(torch.randn(64, 10)), torch.randn(64, 1))
loss.backward()
