"""A custom linear layer whose backward returns the gradient of the weight transposed.

What is wrong: the weight is (out, in), but `x.T @ grad_output` is (in, out).
PyTorch says:  returned an invalid gradient at index 1 - got [20, 5] but expected shape compatible with [5, 20]
Fix:          `grad_weight = grad_output.T @ x`. A gradient always has the shape of what it belongs to. With
               a square weight nothing would have been said: check with torch.autograd.gradcheck.
"""

import torch
import torch.nn.functional as F
from torch import nn


class LinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad_x = grad_output @ weight
        grad_weight = x.T @ grad_output
        return grad_x, grad_weight


def main():
    torch.manual_seed(0)
    inputs, labels = torch.randn(32, 20), torch.randint(0, 5, (32,))
    weight = nn.Parameter(torch.randn(5, 20) * 0.1)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(LinearFunction.apply(inputs, weight), labels)
        loss.backward()
        optimizer.step()


main()
