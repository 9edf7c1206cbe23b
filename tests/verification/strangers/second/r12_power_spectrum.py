import torch


class PowerSpectrum(torch.autograd.Function):
    """|rfft(x)|^2, even length; the interior bins stand for two."""

    @staticmethod
    def forward(ctx, x):
        X = torch.fft.rfft(x)
        ctx.save_for_backward(X)
        ctx.n = x.shape[-1]
        return X.real ** 2 + X.imag ** 2

    @staticmethod
    def backward(ctx, g):
        X, = ctx.saved_tensors
        Y = 2 * g * X * ctx.n
        Y[..., 1:-1] *= 0.5
        return torch.fft.irfft(Y, n=ctx.n)


def f(x, win, mel):
    P = PowerSpectrum.apply(x * win)
    return torch.log(P @ mel + 1e-3).sum()


def inputs():
    g = torch.Generator().manual_seed(112)
    return (torch.randn(3, 12, generator=g, dtype=torch.float64, requires_grad=True),
            torch.hann_window(12, dtype=torch.float64), torch.rand(7, 4, generator=g, dtype=torch.float64))
