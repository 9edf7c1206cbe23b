import torch


class RepeatKV(torch.autograd.Function):
    """(B, Hkv, T, D) -> (B, Hkv * rep, T, D), query head h reads kv head h // rep"""

    @staticmethod
    def forward(ctx, kv, rep):
        ctx.rep = rep
        return kv.repeat_interleave(rep, dim=1)

    @staticmethod
    def backward(ctx, g):
        B, H, T, D = g.shape
        return g.reshape(B, ctx.rep, H // ctx.rep, T, D).sum(1), None


def f(q, k, v):
    kk = RepeatKV.apply(k, 2)
    vv = v.repeat_interleave(2, dim=1)
    p = torch.softmax(q @ kk.transpose(-1, -2) / 2.0, dim=-1)
    return (p @ vv).pow(2).sum()


def inputs():
    g = torch.Generator().manual_seed(20)
    q = torch.randn(1, 6, 4, 4, generator=g, dtype=torch.float64, requires_grad=True)
    k = torch.randn(1, 3, 4, 4, generator=g, dtype=torch.float64, requires_grad=True)
    v = torch.randn(1, 3, 4, 4, generator=g, dtype=torch.float64, requires_grad=True)
    return q, k, v
