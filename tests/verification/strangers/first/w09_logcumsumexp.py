import torch


class LogCumSumExp(torch.autograd.Function):
    """y_i = log sum_{j<=i} exp(x_j) along the last dim (Cox partial likelihood)."""

    @staticmethod
    def forward(ctx, x):
        m = x.max(dim=-1, keepdim=True).values
        y = (x - m).exp().cumsum(-1).log() + m
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        s = g * (-y).exp()
        tail = s.sum(-1, keepdim=True) - s.cumsum(-1)   # sum over i >= j
        return x.exp() * tail


def f(z, beta):
    risk = (z * beta).sum(-1)
    lse = LogCumSumExp.apply(risk)
    return (lse - risk).mean()


def inputs():
    g = torch.Generator().manual_seed(9)
    z = torch.randn(2, 7, 3, generator=g, dtype=torch.float64)
    beta = torch.randn(3, generator=g, dtype=torch.float64, requires_grad=True)
    return z.requires_grad_(), beta
