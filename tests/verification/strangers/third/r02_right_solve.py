import torch
import torch.nn.functional as F
from torch.autograd import Function


class RightSolve(Function):
    """X A = B  =>  X = B A^{-1}"""

    @staticmethod
    def forward(ctx, A, B):
        X = torch.linalg.solve(A, B, left=False)
        ctx.save_for_backward(A, X)
        return X

    @staticmethod
    def backward(ctx, g):
        A, X = ctx.saved_tensors
        gB = torch.linalg.solve(A.mT, g, left=False)
        return -X.mT @ gB, gB


def f(A, B):
    eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    return torch.sin(RightSolve.apply(A + 3 * eye, B)).sum()


def inputs():
    torch.manual_seed(102)
    A = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    B = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    return A, B
