import torch


class Sample1d(torch.autograd.Function):
    """linear interpolation of a signal (B, L) at coordinates in [-1, 1] (B, M), align_corners."""

    @staticmethod
    def forward(ctx, sig, coord):
        L = sig.shape[1]
        pos = (coord + 1) * 0.5 * (L - 1)
        i0 = pos.floor().long().clamp(0, L - 2)
        t = pos - i0
        v0 = sig.gather(1, i0)
        v1 = sig.gather(1, i0 + 1)
        ctx.save_for_backward(i0, t, v0, v1)
        ctx.L = L
        return v0 * (1 - t) + v1 * t

    @staticmethod
    def backward(ctx, g):
        i0, t, v0, v1 = ctx.saved_tensors
        gs = g.new_zeros(g.shape[0], ctx.L)
        gs.scatter_add_(1, i0, g * (1 - t))
        gs.scatter_add_(1, i0 + 1, g * t)
        gc = g * (v1 - v0)
        return gs, gc


def f(sig, theta, base):
    coord = torch.tanh(base * theta[:, :1] + theta[:, 1:])
    y = Sample1d.apply(sig, coord)
    return torch.log1p(y * y).sum()


def inputs():
    g = torch.Generator().manual_seed(14)
    r = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64)
    return (r(2, 9).requires_grad_(), r(2, 2).requires_grad_(), torch.linspace(-1, 1, 6, dtype=torch.float64))
