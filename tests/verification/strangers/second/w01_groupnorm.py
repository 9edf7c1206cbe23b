import torch
import torch.nn.functional as F


class GroupNormFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gamma, beta, groups, eps):
        N, C, L = x.shape
        xg = x.reshape(N, groups, -1)
        mu = xg.mean(-1, keepdim=True)
        var = ((xg - mu) ** 2).mean(-1, keepdim=True)
        rstd = (var + eps).rsqrt()
        xhat = ((xg - mu) * rstd).reshape(N, C, L)
        ctx.save_for_backward(xhat, rstd, gamma)
        ctx.groups = groups
        return xhat * gamma[None, :, None] + beta[None, :, None]

    @staticmethod
    def backward(ctx, g):
        xhat, rstd, gamma = ctx.saved_tensors
        N, C, L = g.shape
        dgamma = (g * xhat).sum((0, 2))
        dbeta = g.sum((0, 2))
        gg = g.reshape(N, ctx.groups, -1)
        xh = xhat.reshape(N, ctx.groups, -1)
        dx = rstd * (gg - gg.mean(-1, keepdim=True) - xh * (gg * xh).mean(-1, keepdim=True))
        dx = dx.reshape(N, C, L) * gamma[None, :, None]
        return dx, dgamma, dbeta, None, None


def f(x, w, gamma, beta):
    h = F.conv1d(x, w, padding=1)
    y = GroupNormFn.apply(h, gamma, beta, 2, 1e-5)
    return torch.tanh(y).pow(2).sum()


def inputs():
    g = torch.Generator().manual_seed(1)
    r = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64)
    return (r(3, 3, 7), (r(6, 3, 3) * 0.5).requires_grad_(), (1 + 0.5 * r(6)).requires_grad_(), r(6).requires_grad_())
