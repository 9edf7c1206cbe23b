import torch


class InvQuad(torch.autograd.Function):
    """y^T K^{-1} y and log det K in one go (general square K with positive det)."""

    @staticmethod
    def forward(ctx, K, y):
        Kinv = torch.linalg.inv(K)
        a = Kinv @ y
        b = Kinv.t() @ y
        ctx.save_for_backward(Kinv, a, b)
        return torch.dot(y, a), torch.linalg.slogdet(K)[1]

    @staticmethod
    def backward(ctx, gq, gd):
        Kinv, a, b = ctx.saved_tensors
        gK = -gq * torch.outer(b, a) + gd * Kinv.t()
        return gK, gq * (a + b)


def f(M, y):
    K = 0.3 * M + 2 * torch.eye(4, dtype=M.dtype)
    quad, logdet = InvQuad.apply(K, y)
    return 0.5 * quad + 0.5 * logdet


def inputs():
    g = torch.Generator().manual_seed(44)
    M = torch.randn(4, 4, generator=g, dtype=torch.float64, requires_grad=True)
    y = torch.randn(4, generator=g, dtype=torch.float64, requires_grad=True)
    return M, y
