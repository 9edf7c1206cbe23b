import torch

SEG = torch.tensor([0, 2, 2, 0, 4, 4, 4, 2])


class SegmentLSE(torch.autograd.Function):
    """log-sum-exp per segment; an empty segment gives 0 and gets no gradient."""

    @staticmethod
    def forward(ctx, x, seg, n):
        m = x.new_full((n,), float("-inf")).scatter_reduce(0, seg, x, "amax")
        m = torch.where(m.isinf(), torch.zeros_like(m), m)
        z = x.new_zeros(n).index_add_(0, seg, (x - m[seg]).exp())
        empty = z == 0
        y = torch.where(empty, torch.zeros_like(z), z.clamp(min=1e-30).log() + m)
        ctx.save_for_backward(x, y, seg)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y, seg = ctx.saved_tensors
        return g[seg] * (x - y[seg]).exp(), None, None


def f(h, w):
    e = h @ w
    y = SegmentLSE.apply(e, SEG, 6)
    return (y * torch.tensor([1.0, 2.0, -1.0, 0.5, 3.0, 1.0], dtype=h.dtype)).pow(2).sum()


def inputs():
    g = torch.Generator().manual_seed(39)
    h = torch.randn(8, 3, generator=g, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, generator=g, dtype=torch.float64, requires_grad=True)
    return h, w
