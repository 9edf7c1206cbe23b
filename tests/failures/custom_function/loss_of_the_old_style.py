# code: BS200
# variable: criterion(net(x), y)
# cause: class Pinball(Function):
# fix: `class Pinball(torch.nn.Module):`
"""Quantile regression; the loss is a Function as they were written years ago."""

import torch
from torch.autograd import Function


class Pinball(Function):
    def __init__(self, *quantiles):
        self.quantiles = torch.tensor(quantiles)

    def forward(self, predicted, target):
        """The mean over the quantiles."""
        self.save_for_backward(predicted, target)
        error = self.error(predicted, target)
        return torch.maximum(self.quantiles * error, (self.quantiles - 1) * error).mean()

    def error(self, predicted, target):
        return target.unsqueeze(1) - predicted


net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
criterion = Pinball(0.1, 0.9)
optimizer = torch.optim.Adam(net.parameters())
for step in range(3):
    x = torch.randn(16, 3)
    y = x.sum(1)
    optimizer.zero_grad()
    criterion(net(x), y).backward()
    optimizer.step()
