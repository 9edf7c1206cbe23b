import torch


def _rot_half(x):
    h = x.shape[-1] // 2
    return torch.cat([-x[..., h:], x[..., :h]], dim=-1)


class PartialRotary(torch.autograd.Function):
    """Rotary embedding on the first `rot` channels (GPT-NeoX style), the rest passes."""

    @staticmethod
    def forward(ctx, q, cos, sin):
        rot = cos.shape[-1]
        ctx.save_for_backward(cos, sin)
        qr, qp = q[..., :rot], q[..., rot:]
        return torch.cat([qr * cos + _rot_half(qr) * sin, qp], dim=-1)

    @staticmethod
    def backward(ctx, grad):
        cos, sin = ctx.saved_tensors
        rot = cos.shape[-1]
        out = torch.zeros_like(grad)
        gr = grad[..., :rot]
        out[..., :rot] = gr * cos - _rot_half(gr) * sin
        return out, None, None


def _tables(T, rot, dtype):
    inv = 1.0 / (100.0 ** (torch.arange(0, rot, 2, dtype=dtype) / rot))
    ang = torch.arange(T, dtype=dtype)[:, None] * inv
    ang = torch.cat([ang, ang], dim=-1)
    return ang.cos(), ang.sin()


def f(x, wq, wk):
    cos, sin = _tables(x.shape[-2], 4, x.dtype)
    q = PartialRotary.apply(x @ wq, cos, sin)
    k = x @ wk
    return torch.softmax(q @ k.transpose(-1, -2), dim=-1)[..., 0].sum()


def inputs():
    g = torch.Generator().manual_seed(2)
    x = torch.randn(2, 5, 6, generator=g, dtype=torch.float64, requires_grad=True)
    wq = (torch.randn(6, 6, generator=g, dtype=torch.float64) * 0.4).requires_grad_()
    wk = (torch.randn(6, 6, generator=g, dtype=torch.float64) * 0.4).requires_grad_()
    return x, wq, wk
