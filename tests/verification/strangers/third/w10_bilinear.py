import torch
import torch.nn.functional as F
from torch.autograd import Function


class BilinearScore(Function):
    """s_n = x_n^T A y_n"""

    @staticmethod
    def forward(ctx, x, A, y):
        ctx.save_for_backward(x, A, y)
        return torch.einsum('ni,ij,nj->n', x, A, y)

    @staticmethod
    def backward(ctx, g):
        x, A, y = ctx.saved_tensors
        gx = g[:, None] * (y @ A.t())
        gy = g[:, None] * (x @ A)
        gA = torch.einsum('n,ni,nj->ij', g, y, x)
        return gx, gA, gy


def f(x, A, y):
    s = BilinearScore.apply(torch.tanh(x), A, y)
    return F.softplus(-s).sum()


def inputs():
    torch.manual_seed(10)
    x = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    A = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    y = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    return x, A, y
