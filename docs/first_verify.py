"""What docs/verify.md shows: the two functions of a tutorial, in a small network."""

import torch
from torch import nn

import backsight as bs


class Poly(torch.autograd.Function):
    """3x² + 2x + 1."""

    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return 3 * input**2 + 2 * input + 1

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        return grad_output * 6 * input + 2


class ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input < 0] = 0
        grad_input[input >= 0] = 1
        return grad_input


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 1)

    def forward(self, x):
        h = ReLU.apply(self.norm(self.first(x)))
        h = Poly.apply(torch.tanh(h))
        return self.last(h)


torch.manual_seed(0)
print(bs.verify(Net(), torch.randn(16, 4)))
