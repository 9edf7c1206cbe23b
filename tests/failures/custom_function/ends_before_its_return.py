# code: BS207
# variable: Distance
# cause: def backward(ctx, grad_output):
# fix: put `return grad_x, grad_centers` below line 22
"""Distances to centers; the return of the backward was forgotten."""

import torch
from torch import nn


class Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, centers):
        ctx.save_for_backward(x, centers)
        return (x.unsqueeze(1) - centers).square().sum(2)

    @staticmethod
    def backward(ctx, grad_output):
        x, centers = ctx.saved_tensors
        apart = 2 * (x.unsqueeze(1) - centers) * grad_output.unsqueeze(2)
        grad_x = apart.sum(1)
        grad_centers = -apart.sum(0)


centers = nn.Parameter(torch.randn(3, 2))
embed = nn.Linear(4, 2)
optimizer = torch.optim.SGD([centers, *embed.parameters()], lr=0.1)
for step in range(2):
    distances = Distance.apply(embed(torch.randn(8, 4)), centers)
    optimizer.zero_grad()
    distances.min(1).values.mean().backward()
    optimizer.step()
