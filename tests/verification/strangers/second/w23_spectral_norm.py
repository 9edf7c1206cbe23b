import torch


class SpectralNorm(torch.autograd.Function):
    """W / sigma_max(W), u and v of the largest singular value."""

    @staticmethod
    def forward(ctx, W):
        U, S, Vh = torch.linalg.svd(W, full_matrices=False)
        sigma = S[0]
        ctx.save_for_backward(sigma)
        return W / sigma

    @staticmethod
    def backward(ctx, g):
        sigma, = ctx.saved_tensors
        return g / sigma


def f(x, W, b):
    y = torch.nn.functional.linear(x, SpectralNorm.apply(W), b)
    return torch.nn.functional.softplus(y).sum()


def inputs():
    torch.manual_seed(23)
    return (torch.randn(5, 4), torch.randn(6, 4, requires_grad=True), torch.randn(6, requires_grad=True))
