# code: BS208
# variable: scale
# cause: return grad_output * scale, (grad_output * x).sum((0, 2, 3))
# fix: view_as(scale)
import torch
from torch import nn


class ChannelScale(torch.autograd.Function):
    """Scales the channels of images."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    def backward(ctx, grad_output):
        x, scale = ctx.saved_tensors
        return grad_output * scale, (grad_output * x).sum((0, 2, 3))


class Scale(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels, 1, 1))

    def forward(self, x):
        return ChannelScale.apply(x, self.scale.expand(-1, 1, 1))


net = nn.Sequential(nn.Conv2d(1, 3, 3), Scale(3))
net(torch.randn(2, 1, 8, 8)).sum().backward()
