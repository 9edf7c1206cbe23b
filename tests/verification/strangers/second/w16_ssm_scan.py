import torch


class SelectiveScan(torch.autograd.Function):
    """h_t = a_t h_{t-1} + u_t ; returns all h (B, T, D)."""

    @staticmethod
    def forward(ctx, a, u):
        h = torch.zeros_like(u[:, 0])
        hs = []
        for t in range(u.shape[1]):
            h = a[:, t] * h + u[:, t]
            hs.append(h)
        hs = torch.stack(hs, 1)
        ctx.save_for_backward(a, hs)
        return hs

    @staticmethod
    def backward(ctx, g):
        a, hs = ctx.saved_tensors
        T = a.shape[1]
        da, du = torch.zeros_like(a), torch.zeros_like(hs)
        carry = torch.zeros_like(hs[:, 0])
        for t in reversed(range(T)):
            carry = g[:, t] + a[:, t] * carry
            du[:, t] = carry
            if t > 0:
                da[:, t] = carry * hs[:, t - 1]
        return da, du


def f(x, wd, wc):
    delta = torch.sigmoid(x @ wd)
    h = SelectiveScan.apply(1 - delta, delta * x)
    return (h @ wc).tanh().sum()


def inputs():
    g = torch.Generator().manual_seed(16)
    r = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64)
    return (r(2, 6, 3).requires_grad_(), r(3, 3).requires_grad_(), r(3, 2).requires_grad_())
