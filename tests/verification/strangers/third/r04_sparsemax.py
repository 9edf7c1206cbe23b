import torch
import torch.nn.functional as F
from torch.autograd import Function


class Sparsemax(Function):
    @staticmethod
    def forward(ctx, z):
        zs, _ = z.sort(-1, descending=True)
        k = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
        cs = zs.cumsum(-1)
        kz = (1 + k * zs > cs).sum(-1, keepdim=True)
        tau = (cs.gather(-1, kz - 1) - 1) / kz
        p = (z - tau).clamp(min=0)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx, g):
        p, = ctx.saved_tensors
        s = (p > 0).to(g.dtype)
        return s * (g - (g * s).sum(-1, keepdim=True) / s.sum(-1, keepdim=True))


def f(x, w, v):
    return (Sparsemax.apply(x @ w) @ v).pow(2).sum()


def inputs():
    torch.manual_seed(104)
    x = torch.randn(5, 3, requires_grad=True)
    w = (0.5 * torch.randn(3, 6)).requires_grad_()
    v = torch.randn(6, 2, requires_grad=True)
    return x, w, v
