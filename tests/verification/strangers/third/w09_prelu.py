import torch
import torch.nn.functional as F
from torch.autograd import Function


class ChannelPReLU(Function):
    """x: (N, C, H, W), a: (C,)"""

    @staticmethod
    def forward(ctx, x, a):
        ctx.save_for_backward(x, a)
        return torch.where(x > 0, x, a.view(1, -1, 1, 1) * x)

    @staticmethod
    def backward(ctx, g):
        x, a = ctx.saved_tensors
        neg = (x <= 0).to(x.dtype)
        gx = g * torch.where(x > 0, torch.ones_like(x), a.view(1, -1, 1, 1).expand_as(x))
        ga = (g * x * neg).sum(dim=(0, 2))
        return gx, ga


def f(img, a, scale):
    y = ChannelPReLU.apply(img * scale, a)
    return y.pow(2).mean()


def inputs():
    torch.manual_seed(9)
    img = torch.randn(2, 4, 3, 4, dtype=torch.float64, requires_grad=True)
    a = (0.25 + 0.1 * torch.randn(4, dtype=torch.float64)).requires_grad_()
    scale = torch.randn(1, 4, 1, 1, dtype=torch.float64, requires_grad=True)
    return img, a, scale
