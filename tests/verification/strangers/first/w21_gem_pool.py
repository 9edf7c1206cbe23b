import torch


class GeM(torch.autograd.Function):
    """Generalised mean pooling over the last dim: (mean x^p)^(1/p), p learned."""

    @staticmethod
    def forward(ctx, x, p):
        xp = x.pow(p)
        m = xp.mean(-1, keepdim=True)
        y = m.pow(1 / p)
        ctx.save_for_backward(x, p, xp, m, y)
        return y.squeeze(-1)

    @staticmethod
    def backward(ctx, g):
        x, p, xp, m, y = ctx.saved_tensors
        g = g.unsqueeze(-1)
        n = x.shape[-1]
        gx = g * y / m * x.pow(p - 1) / n
        gp = (g * y / (p * m) * (xp * x.log()).mean(-1, keepdim=True)).sum()
        return gx, gp


def f(feat, p, w):
    x = torch.nn.functional.softplus(feat) + 1e-3
    pooled = GeM.apply(x, p)
    return (pooled @ w).sum()


def inputs():
    g = torch.Generator().manual_seed(21)
    feat = torch.randn(3, 4, 9, generator=g, dtype=torch.float64, requires_grad=True)
    p = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 2, generator=g, dtype=torch.float64, requires_grad=True)
    return feat, p, w
