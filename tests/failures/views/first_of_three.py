# code: BS209
# variable: parts[0]
# cause: parts[0].tanh_()
# or: parts[0][:, 0] = 0
# or: parts = [part.zero_() for part in parts]
# fix: list
"""The first third of a layer's output gets a nonlinearity of its own."""

import torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(6, 6)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    parts = layer(torch.randn(4, 6)).chunk(3, dim=1)
    parts[0].tanh_()
    loss = (torch.cat([*parts], 1) - layer.weight[0]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
