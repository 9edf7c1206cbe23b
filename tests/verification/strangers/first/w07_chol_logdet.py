import torch


class CholLogDet(torch.autograd.Function):
    """log det of a batch of covariance matrices, by Cholesky."""

    @staticmethod
    def forward(ctx, S):
        S = 0.5 * (S + S.transpose(-1, -2))
        L = torch.linalg.cholesky(S)
        ctx.save_for_backward(L)
        return 2 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    @staticmethod
    def backward(ctx, g):
        (L,) = ctx.saved_tensors
        eye = torch.eye(L.shape[-1], dtype=L.dtype).expand_as(L)
        Li = torch.linalg.solve_triangular(L, eye, upper=False)
        Sinv = Li @ Li.transpose(-1, -2)
        return g[:, None, None] * Sinv


def f(X, noise):
    n = X.shape[-1]
    S = X @ X.transpose(-1, -2) / n + noise.exp() * torch.eye(X.shape[-2], dtype=X.dtype)
    ld = CholLogDet.apply(S)
    return 0.5 * ld.sum()


def inputs():
    g = torch.Generator().manual_seed(7)
    X = torch.randn(2, 3, 5, generator=g, dtype=torch.float64, requires_grad=True)
    noise = torch.tensor(-0.5, dtype=torch.float64, requires_grad=True)
    return X, noise
