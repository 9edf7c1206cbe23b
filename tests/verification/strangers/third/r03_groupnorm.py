import torch
import torch.nn.functional as F
from torch.autograd import Function


class GroupNorm(Function):
    @staticmethod
    def forward(ctx, x, w, b, groups, eps):
        N, C, L = x.shape
        xg = x.reshape(N, groups, -1)
        var, mu = torch.var_mean(xg, dim=-1, unbiased=False, keepdim=True)
        rstd = (var + eps).rsqrt()
        xhat = ((xg - mu) * rstd).reshape(N, C, L)
        ctx.save_for_backward(xhat, rstd, w)
        ctx.groups = groups
        return xhat * w[:, None] + b[:, None]

    @staticmethod
    def backward(ctx, g):
        xhat, rstd, w = ctx.saved_tensors
        N, C, L = g.shape
        gw = torch.einsum('ncl,ncl->c', g, xhat)
        gb = torch.einsum('ncl->c', g)
        d = (g * w[:, None]).reshape(N, ctx.groups, -1)
        h = xhat.reshape(N, ctx.groups, -1)
        m = d.shape[-1]
        d = d - (d.sum(-1, keepdim=True) + h * (d * h).sum(-1, keepdim=True)) / m
        return (d * rstd).reshape(N, C, L), gw, gb, None, None


def f(x, w, b):
    return F.silu(GroupNorm.apply(x, w, b, 2, 1e-5)).pow(2).sum()


def inputs():
    torch.manual_seed(103)
    x = torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, dtype=torch.float64, requires_grad=True)
    b = torch.randn(4, dtype=torch.float64, requires_grad=True)
    return x, w, b
