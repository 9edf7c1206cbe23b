import torch
import torch.nn.functional as F
from torch.autograd import Function


TOKENS = torch.tensor([[1, 4, 1, 0], [2, 4, 4, 5]])


class Embedding(Function):
    @staticmethod
    def forward(ctx, weight, idx):
        ctx.save_for_backward(idx)
        ctx.shape = weight.shape
        return weight[idx]

    @staticmethod
    def backward(ctx, grad_output):
        idx, = ctx.saved_tensors
        grad_weight = grad_output.new_zeros(ctx.shape)
        grad_weight[idx.reshape(-1)] = grad_output.reshape(-1, ctx.shape[1])
        return grad_weight, None


def f(weight, proj):
    e = Embedding.apply(weight, TOKENS.to(weight.device))
    return torch.tanh(e @ proj).pow(2).sum()


def inputs():
    torch.manual_seed(7)
    weight = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    proj = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    return weight, proj
