import torch


class BilinearPair(torch.autograd.Function):
    """s[b,i,j,k] = x[b,i] W[k] y[b,j] + x[b,i] U[k], biaffine scorer."""

    @staticmethod
    def forward(ctx, x, W, y, U):
        ctx.save_for_backward(x, W, y, U)
        return torch.einsum("bid,kde,bje->bijk", x, W, y) + (x @ U.t())[:, :, None]

    @staticmethod
    def backward(ctx, g):
        x, W, y, U = ctx.saved_tensors
        gj = g.sum(2)
        yw = torch.einsum("kde,bje->bjkd", W, y)
        dx = torch.einsum("bijk,bjkd->bid", g, yw) + gj @ U
        dW = torch.einsum("bijk,bid,bje->kde", g, x, y)
        dy = torch.einsum("bijk,bid,kde->bje", g, x, W)
        dU = torch.einsum("bik,bid->kd", gj, x)
        return dx, dW, dy, dU


def f(h, wx, wy, W, U):
    s = BilinearPair.apply(torch.relu(h @ wx), W, torch.relu(h @ wy), U)
    return torch.log_softmax(s, 3)[..., 0].sum()


def inputs():
    g = torch.Generator().manual_seed(114)
    r = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64)
    return (r(2, 4, 5), r(5, 3).requires_grad_(), r(5, 4).requires_grad_(), r(2, 3, 4).requires_grad_(), r(2, 3).requires_grad_())
