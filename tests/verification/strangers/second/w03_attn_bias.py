import math
import torch


class BiasedAttention(torch.autograd.Function):
    """softmax(q k^T / sqrt(d) + bias) v, bias shared over the batch."""

    @staticmethod
    def forward(ctx, q, k, v, bias):
        scale = 1.0 / math.sqrt(q.shape[-1])
        s = torch.matmul(q, k.transpose(-1, -2)) * scale + bias
        p = torch.softmax(s, dim=-1)
        ctx.save_for_backward(q, k, v, p)
        ctx.scale = scale
        return p @ v

    @staticmethod
    def backward(ctx, do):
        q, k, v, p = ctx.saved_tensors
        dv = p.transpose(-1, -2) @ do
        dp = do @ v.transpose(-1, -2)
        ds = p * (dp - (dp * p).sum(-1, keepdim=True))
        ds = ds * ctx.scale
        dq = ds @ k
        dk = ds.transpose(-1, -2) @ q
        dbias = ds.sum(0)
        return dq, dk, dv, dbias


def f(x, wq, wk, wv, bias):
    o = BiasedAttention.apply(x @ wq, x @ wk, x @ wv, bias)
    return (o ** 2).sum()


def inputs():
    g = torch.Generator().manual_seed(3)
    r = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64)
    return (r(2, 5, 6).requires_grad_(), r(6, 4).requires_grad_(), r(6, 4).requires_grad_(),
            r(6, 4).requires_grad_(), r(5, 5).requires_grad_())
