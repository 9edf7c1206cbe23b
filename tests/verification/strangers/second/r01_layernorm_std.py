import torch


class LayerNormStd(torch.autograd.Function):
    """annotated transformer style: a (x - mean) / (std + eps) + b, std with n - 1."""

    @staticmethod
    def forward(ctx, x, a, b, eps):
        n = x.shape[-1]
        xc = x - x.mean(-1, keepdim=True)
        std = (xc.pow(2).sum(-1, keepdim=True) / (n - 1)).sqrt()
        ctx.save_for_backward(xc, std, a)
        ctx.eps = eps
        return a * xc / (std + eps) + b

    @staticmethod
    def backward(ctx, g):
        xc, std, a = ctx.saved_tensors
        n = xc.shape[-1]
        d = std + ctx.eps
        da = (g * xc / d).flatten(0, -2).sum(0)
        db = g.flatten(0, -2).sum(0)
        m = g * a
        dxc = m / d - xc * (m * xc).sum(-1, keepdim=True) / (d * d * std * (n - 1))
        return dxc - dxc.mean(-1, keepdim=True), da, db, None


def f(x, w, a, b):
    return torch.relu(LayerNormStd.apply(x @ w, a, b, 1e-2)).pow(2).sum()


def inputs():
    g = torch.Generator().manual_seed(101)
    r = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64)
    return (r(2, 3, 5).requires_grad_(), r(5, 6).requires_grad_(), r(6).requires_grad_(), r(6).requires_grad_())
