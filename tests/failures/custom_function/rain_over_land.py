# code: BS200
# variable: (2 * grad).view(*land.shape)
# cause: return (2 * grad).view(*land.shape), None
# fix: write `return (2 * grad).new_zeros(*land.shape).masked_scatter(land, 2 * grad), None`
# unsure: that forward returns what it picks is read from its text
import torch
from torch import nn


class OnLand(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rain, land):
        ctx.save_for_backward(land)
        return rain[land]

    @staticmethod
    def backward(ctx, grad):
        land, = ctx.saved_tensors
        return (2 * grad).view(*land.shape), None


rain = nn.Parameter(torch.rand(4, 5))
OnLand.apply(rain, torch.rand(4, 5) > 0.5).sum().backward()
