import torch

SRC = torch.tensor([0, 1, 2, 3, 4, 0, 2, 4])
DST = torch.tensor([1, 2, 3, 4, 0, 3, 0, 1])


class WeightedAggregate(torch.autograd.Function):
    """out[d] = sum over edges (s -> d) of w_e * x[s]"""

    @staticmethod
    def forward(ctx, x, w, src, dst):
        ctx.save_for_backward(x, w, src, dst)
        return torch.zeros_like(x).index_add_(0, dst, w[:, None] * x[src])

    @staticmethod
    def backward(ctx, grad):
        x, w, src, dst = ctx.saved_tensors
        ge = grad[dst]
        gx = torch.zeros_like(x).index_add_(0, src, w[:, None] * ge)
        gw = (ge * x[dst]).sum(-1)
        return gx, gw, None, None


def f(x, w, theta):
    h = WeightedAggregate.apply(x @ theta, torch.sigmoid(w), SRC, DST)
    return torch.tanh(h).sum()


def inputs():
    g = torch.Generator().manual_seed(5)
    x = torch.randn(5, 4, generator=g, dtype=torch.float64, requires_grad=True)
    w = torch.randn(8, generator=g, dtype=torch.float64, requires_grad=True)
    theta = torch.randn(4, 3, generator=g, dtype=torch.float64, requires_grad=True)
    return x, w, theta
