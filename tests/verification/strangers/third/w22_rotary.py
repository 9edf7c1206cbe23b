import torch
import torch.nn.functional as F
from torch.autograd import Function


def _rot(x, cos, sin):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1)


class Rotary(Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        return _rot(x, cos, sin)

    @staticmethod
    def backward(ctx, g):
        cos, sin = ctx.saved_tensors
        return _rot(g, cos, sin), None, None


def f(q, k):
    T, D = q.shape[-2:]
    freq = 10.0 ** (-torch.arange(D // 2, dtype=q.dtype, device=q.device) / (D // 2))
    ang = torch.arange(T, dtype=q.dtype, device=q.device)[:, None] * freq
    cos, sin = ang.cos(), ang.sin()
    s = Rotary.apply(q, cos, sin) @ k.transpose(-2, -1)
    return torch.logsumexp(s, -1).sum()


def inputs():
    torch.manual_seed(22)
    q = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    k = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    return q, k
