import torch


class RotaryInterleaved(torch.autograd.Function):
    """Rotate pairs (2i, 2i+1) through complex multiplication; also the gradient of the angles."""

    @staticmethod
    def forward(ctx, x, ang):
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
        rot = torch.polar(torch.ones_like(ang), ang)
        out = z * rot
        ctx.save_for_backward(rot, out)
        return torch.view_as_real(out).flatten(-2)

    @staticmethod
    def backward(ctx, g):
        rot, out = ctx.saved_tensors
        G = torch.view_as_complex(g.reshape(*g.shape[:-1], -1, 2).contiguous())
        gx = torch.view_as_real(G * rot.conj()).flatten(-2)
        gang = (G.conj() * (1j * out)).real.sum(0)
        return gx, gang


def f(x, freq, w):
    ang = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * freq
    y = RotaryInterleaved.apply(x, ang)
    return torch.tanh(y @ w).sum()


def inputs():
    g = torch.Generator().manual_seed(32)
    x = torch.randn(2, 5, 6, generator=g, requires_grad=True)
    freq = torch.rand(3, generator=g, requires_grad=True)
    w = torch.randn(6, 2, generator=g, requires_grad=True)
    return x, freq, w
