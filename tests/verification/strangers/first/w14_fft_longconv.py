import torch


class FFTConv(torch.autograd.Function):
    """Causal long convolution of u (B, C, T) with k (C, T), by zero padded FFT (Hyena / S4)."""

    @staticmethod
    def forward(ctx, u, k):
        T = u.shape[-1]
        n = 2 * T
        U, K = torch.fft.rfft(u, n=n), torch.fft.rfft(k, n=n)
        ctx.save_for_backward(U, K)
        ctx.T = T
        return torch.fft.irfft(U * K, n=n)[..., :T]

    @staticmethod
    def backward(ctx, g):
        U, K = ctx.saved_tensors
        n = 2 * ctx.T
        G = torch.fft.rfft(g, n=n)
        gu = torch.fft.irfft(G * K.conj(), n=n)[..., :ctx.T]
        gk = torch.fft.irfft((G * U).sum(0), n=n)[..., :ctx.T]
        return gu, gk


def f(u, k, D):
    y = FFTConv.apply(u, k) + u * D[:, None]
    return torch.nn.functional.gelu(y).sum()


def inputs():
    g = torch.Generator().manual_seed(14)
    u = torch.randn(2, 3, 6, generator=g, dtype=torch.float64, requires_grad=True)
    k = torch.randn(3, 6, generator=g, dtype=torch.float64, requires_grad=True)
    D = torch.randn(3, generator=g, dtype=torch.float64, requires_grad=True)
    return u, k, D
