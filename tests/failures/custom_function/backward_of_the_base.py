# code: BS207
# variable: Gated
# cause: return grad * (x > 0)
# fix: Give Gated a backward of its own
import torch
from torch import nn


class Ramp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp_min(0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x > 0)


class Gated(Ramp):
    """The ramp, times a gate that is learned."""

    @staticmethod
    def forward(ctx, x, gate):
        ctx.save_for_backward(x)
        return x.clamp_min(0) * gate


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.mix = nn.Linear(size, size)
        self.gate = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return Gated.apply(self.mix(x), self.gate)


torch.manual_seed(0)
layer = Layer(4)
layer(torch.randn(3, 4)).square().mean().backward()
