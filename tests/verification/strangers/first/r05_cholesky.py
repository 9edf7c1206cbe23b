import torch


class SymCholesky(torch.autograd.Function):
    """Cholesky factor of the symmetric part of A (Murray 2016 reverse mode)."""

    @staticmethod
    def forward(ctx, A):
        L = torch.linalg.cholesky(0.5 * (A + A.t()))
        ctx.save_for_backward(L)
        return L

    @staticmethod
    def backward(ctx, gL):
        (L,) = ctx.saved_tensors
        P = (L.t() @ gL.tril()).tril()
        P = P - 0.5 * torch.diag(P.diagonal())
        S = torch.linalg.solve_triangular(L.t(), P, upper=True)
        S = torch.linalg.solve_triangular(L.t(), S.t(), upper=True).t()
        return 0.5 * (S + S.t())


def f(M, eps):
    A = M @ M.t() + torch.eye(4, dtype=M.dtype)
    L = SymCholesky.apply(A)
    return torch.sin(L @ eps).sum()


def inputs():
    g = torch.Generator().manual_seed(35)
    M = torch.randn(4, 4, generator=g, dtype=torch.float64, requires_grad=True)
    eps = torch.randn(4, 3, generator=g, dtype=torch.float64)
    return M, eps
