import torch
import torch.nn.functional as F
from torch.autograd import Function


class Solve(Function):
    """X = A^{-1} B"""

    @staticmethod
    def forward(ctx, A, B):
        X = torch.linalg.solve(A, B)
        ctx.save_for_backward(A, X)
        return X

    @staticmethod
    def backward(ctx, gX):
        A, X = ctx.saved_tensors
        gB = torch.linalg.solve(A, gX)
        gA = -gB @ X.transpose(-2, -1)
        return gA, gB


def f(A, B):
    eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    X = Solve.apply(A + 4 * eye, B)
    return X.pow(2).sum()


def inputs():
    torch.manual_seed(4)
    A = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    B = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    return A, B
