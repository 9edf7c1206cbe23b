# code: BS200
# variable: loss
# cause: return of_x, (grad * x * (x < 0)).sum()
# fix: `return Leaky.apply(x, self.slope)`
"""A leaky unit with a trained slope, which is passed as a number."""

import torch
from torch import nn


class Leaky(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        return torch.where(x < 0, slope * x, x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        of_x = torch.where(x < 0, ctx.slope * grad, grad)
        return of_x, (grad * x * (x < 0)).sum()


class Unit(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.slope = nn.Parameter(torch.tensor(0.2))

    def forward(self, x):
        x = self.linear(x)
        return Leaky.apply(x, self.slope.item())


unit = Unit()
optimizer = torch.optim.SGD(unit.parameters(), lr=0.1)
for step in range(3):
    loss = unit(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
