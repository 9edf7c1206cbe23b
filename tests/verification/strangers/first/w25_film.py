import torch


class FiLM(torch.autograd.Function):
    """x (B, T, C) * gamma (B, C) + beta (B, C)"""

    @staticmethod
    def forward(ctx, x, gamma, beta):
        ctx.save_for_backward(x, gamma)
        return x * gamma[:, None] + beta[:, None]

    @staticmethod
    def backward(ctx, g):
        x, gamma = ctx.saved_tensors
        gx = g * gamma[:, None]
        gbeta = g.sum(1)
        ggamma = (g * x).sum(1)
        return gx, gbeta, ggamma


def f(x, cond, wg, wb):
    y = FiLM.apply(x, 1 + cond @ wg, cond @ wb)
    return torch.sigmoid(y).sum()


def inputs():
    g = torch.Generator().manual_seed(25)
    x = torch.randn(2, 4, 3, generator=g, dtype=torch.float64, requires_grad=True)
    cond = torch.randn(2, 5, generator=g, dtype=torch.float64, requires_grad=True)
    wg = torch.randn(5, 3, generator=g, dtype=torch.float64, requires_grad=True)
    wb = torch.randn(5, 3, generator=g, dtype=torch.float64, requires_grad=True)
    return x, cond, wg, wb
