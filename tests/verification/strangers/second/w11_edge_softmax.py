import torch

SRC = torch.tensor([0, 1, 2, 3, 0, 2, 1, 4, 3])
DST = torch.tensor([1, 1, 0, 0, 2, 2, 2, 3, 4])


class EdgeSoftmax(torch.autograd.Function):
    """softmax of edge scores over the incoming edges of each node."""

    @staticmethod
    def forward(ctx, score, dst, n):
        mx = score.new_full((n,), float("-inf")).scatter_reduce(0, dst, score, "amax")
        e = torch.exp(score - mx[dst])
        z = score.new_zeros(n).index_add(0, dst, e)
        p = e / z[dst]
        ctx.save_for_backward(p, dst)
        return p

    @staticmethod
    def backward(ctx, g):
        p, dst = ctx.saved_tensors
        return p * (g - (p * g).sum()), None, None


def f(x, w, a):
    h = x @ w
    score = torch.nn.functional.leaky_relu((torch.cat([h[SRC], h[DST]], -1) @ a), 0.2)
    p = EdgeSoftmax.apply(score, DST, x.shape[0])
    out = torch.zeros_like(h).index_add(0, DST, p[:, None] * h[SRC])
    return out.pow(2).sum()


def inputs():
    g = torch.Generator().manual_seed(11)
    r = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64)
    return (r(5, 4), r(4, 3).requires_grad_(), r(6).requires_grad_())
