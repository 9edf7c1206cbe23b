import torch
import torch.nn.functional as F
from torch.autograd import Function


class TripletMargin(Function):
    """relu(|a-p|^2 - |a-n|^2 + margin) per sample"""

    @staticmethod
    def forward(ctx, a, p, n, margin):
        loss = (a - p).pow(2).sum(1) - (a - n).pow(2).sum(1) + margin
        ctx.save_for_backward(a, p, n)
        return loss.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        a, p, n = ctx.saved_tensors
        g = g.unsqueeze(1)
        ga = 2 * g * (n - p)
        gp = 2 * g * (p - a)
        gn = 2 * g * (a - n)
        return ga, gp, gn, None


def f(a, p, n, w):
    return TripletMargin.apply(a @ w, p @ w, n @ w, 0.5).mean()


def inputs():
    torch.manual_seed(16)
    a, p, n = (torch.randn(8, 5, dtype=torch.float64, requires_grad=True) for _ in range(3))
    w = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    return a, p, n, w
