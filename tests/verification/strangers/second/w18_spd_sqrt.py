import torch


class SPDSqrt(torch.autograd.Function):
    """matrix square root of a symmetric positive definite matrix, through eigh."""

    @staticmethod
    def forward(ctx, A):
        lam, U = torch.linalg.eigh(A)
        s = lam.sqrt()
        ctx.save_for_backward(lam, s, U)
        return (U * s) @ U.t()

    @staticmethod
    def backward(ctx, G):
        lam, s, U = ctx.saved_tensors
        dl = lam[:, None] - lam[None, :]
        ds = s[:, None] - s[None, :]
        F = torch.where(dl.abs() > 1e-10, ds / dl, torch.zeros_like(dl))
        G = 0.5 * (G + G.t())
        return U @ (F * (U.t() @ G @ U)) @ U.t()


def f(x, w):
    z = x @ w
    cov = z.t() @ z / z.shape[0] + 0.1 * torch.eye(z.shape[1], dtype=z.dtype)
    R = SPDSqrt.apply(cov)
    return torch.triu(R).pow(2).sum() + R[0].sum()


def inputs():
    g = torch.Generator().manual_seed(18)
    r = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64)
    return (r(10, 5).requires_grad_(), r(5, 4).requires_grad_())
