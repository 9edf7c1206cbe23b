import torch
import torch.nn.functional as F


class Snake(torch.autograd.Function):
    """x + sin(a x)^2 / a, one a for each channel."""

    @staticmethod
    def forward(ctx, x, alpha):
        a = alpha.view(1, -1, 1)
        ctx.save_for_backward(x, alpha)
        return x + torch.sin(a * x) ** 2 / a

    @staticmethod
    def backward(ctx, grad):
        x, alpha = ctx.saved_tensors
        a = alpha.view(1, -1, 1)
        s2 = torch.sin(2 * a * x)
        dx = grad * (1 + s2)
        dalpha = (grad * x * s2 / a).sum((0, 2))
        return dx, dalpha


def f(x, w, alpha):
    h = F.conv1d(x, w, padding=2)
    return Snake.apply(h, alpha).abs().mean()


def inputs():
    g = torch.Generator().manual_seed(7)
    return (torch.randn(2, 2, 12, generator=g),
            torch.randn(4, 2, 5, generator=g).requires_grad_(),
            (0.5 + torch.rand(4, generator=g)).requires_grad_())
