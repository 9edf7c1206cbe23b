import torch


class BilinearScores(torch.autograd.Function):
    """s_bqk = x_bq^T W y_bk (biaffine parser)"""

    @staticmethod
    def forward(ctx, x, W, y):
        ctx.save_for_backward(x, W, y)
        return torch.einsum("bqd,de,bke->bqk", x, W, y)

    @staticmethod
    def backward(ctx, g):
        x, W, y = ctx.saved_tensors
        gx = torch.einsum("bqk,de,bke->bqd", g, W, y)
        gW = torch.einsum("bqk,bqd,bke->ed", g, x, y)
        gy = torch.einsum("bqk,bqd,de->bke", g, x, W)
        return gx, gW, gy


def f(x, W, y):
    s = BilinearScores.apply(x, W, torch.tanh(y))
    return torch.logsumexp(s, dim=-1).sum()


def inputs():
    g = torch.Generator().manual_seed(19)
    x = torch.randn(2, 3, 4, generator=g, requires_grad=True)
    W = torch.randn(4, 4, generator=g, requires_grad=True)
    y = torch.randn(2, 5, 4, generator=g, requires_grad=True)
    return x, W, y
