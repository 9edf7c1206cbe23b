# code: BS208
# variable: table
# cause: return ctx.scale * grad_output, None, None
# fix: zeros of the shape of table
import torch
from torch import nn


class ScaledLookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, words, scale):
        ctx.save_for_backward(words)
        ctx.scale = scale
        return scale * table[words]

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.scale * grad_output, None, None


class Embedding(nn.Module):
    def __init__(self, words, features):
        super().__init__()
        self.table = nn.Parameter(torch.randn(words, features))

    def forward(self, words):
        return ScaledLookup.apply(self.table, words, 0.5)


embedding = Embedding(10, 4)
loss = embedding(torch.tensor([1, 1, 3])).square().mean()
loss.backward()
