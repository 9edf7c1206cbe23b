import torch


class Sinc(torch.autograd.Function):
    """sin(x) / x, smooth at zero"""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        small = x.abs() < 1e-2
        xs = torch.where(small, torch.ones_like(x), x)
        return torch.where(small, 1 - x**2 / 6 + x**4 / 120, xs.sin() / xs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        small = x.abs() < 1e-2
        xs = torch.where(small, torch.ones_like(x), x)
        d = torch.where(small, -x / 3 + x**3 / 30, (xs * xs.cos() - xs.sin()) / xs**2)
        return g * d


def f(x, a):
    y = Sinc.apply(x * a)
    return (y * y.cumsum(0)).sum()


def inputs():
    x = torch.tensor([0.0, 0.003, -0.004, 0.7, -2.1, 5.0, 3.3], dtype=torch.float64, requires_grad=True)
    a = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    return x, a
