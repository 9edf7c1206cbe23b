import torch


class RBFKernel(torch.autograd.Function):
    """K_ij = exp(-|x_i - z_j|^2 / (2 l^2))"""

    @staticmethod
    def forward(ctx, x, z, ls):
        d2 = (x[:, None] - z[None]).pow(2).sum(-1)
        K = torch.exp(-0.5 * d2 / ls**2)
        ctx.save_for_backward(x, z, ls, d2, K)
        return K

    @staticmethod
    def backward(ctx, g):
        x, z, ls, d2, K = ctx.saved_tensors
        gk = g * K
        s = gk / ls**2
        gx = s @ z - s.sum(1)[:, None] * x
        gz = s.t() @ x - s.sum(0)[:, None] * z
        gls = (gk * d2 / ls**2).sum()
        return gx, gz, gls


def f(x, z, log_ls, alpha):
    K = RBFKernel.apply(x, z, log_ls.exp())
    return (K @ alpha).pow(2).sum()


def inputs():
    g = torch.Generator().manual_seed(18)
    x = torch.randn(6, 2, generator=g, dtype=torch.float64, requires_grad=True)
    z = torch.randn(4, 2, generator=g, dtype=torch.float64, requires_grad=True)
    log_ls = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    alpha = torch.randn(4, generator=g, dtype=torch.float64, requires_grad=True)
    return x, z, log_ls, alpha
