import torch


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def tables(T, D, like):
    inv = 1.0 / (10000 ** (torch.arange(0, D, 2, dtype=like.dtype) / D))
    ang = torch.outer(torch.arange(T, dtype=like.dtype), inv)
    ang = torch.cat((ang, ang), -1)
    return ang.cos(), ang.sin()


class FusedRope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, cos, sin):
        ctx.save_for_backward(cos, sin)
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

    @staticmethod
    def backward(ctx, dq, dk):
        cos, sin = ctx.saved_tensors
        dq = dq * cos + rotate_half(dq) * sin
        dk = dk * cos + rotate_half(dk) * sin
        return dq, dk, None, None


def f(x, wq, wk):
    q, k = x @ wq, x @ wk
    cos, sin = tables(x.shape[1], wq.shape[1], x)
    q, k = FusedRope.apply(q, k, cos, sin)
    att = (q @ k.transpose(1, 2)).softmax(-1)
    return (att * att).sum()


def inputs():
    torch.manual_seed(9)
    return (torch.randn(2, 5, 6, dtype=torch.float64), torch.randn(6, 8, dtype=torch.float64, requires_grad=True),
            torch.randn(6, 8, dtype=torch.float64, requires_grad=True))
