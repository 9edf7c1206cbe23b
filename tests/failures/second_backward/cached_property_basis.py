# code: BS201
# variable: layer.basis | self.basis
# cause: return torch.linalg.qr(self.raw).Q
# fix: Recompute
from functools import cached_property

import torch
from torch import nn


class Orthogonal(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.raw = nn.Parameter(torch.randn(width, width))

    @cached_property
    def basis(self):
        return torch.linalg.qr(self.raw).Q

    def forward(self, x):
        return x @ self.basis


layer = Orthogonal(4)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for x in torch.randn(3, 5, 4):
    loss = (layer(x) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
