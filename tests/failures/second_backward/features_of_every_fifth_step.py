# code: BS201
# variable: features
# cause: features = trunk(x)
# fix: remove line 14, `if step % 5 == 0:`
"""The trunk runs in every fifth step only, to save time."""

import torch
from torch import nn
trunk, head = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6)), nn.Linear(6, 1)
opt = torch.optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.1)
x, y = torch.randn(16, 4), torch.randn(16, 1)
features = None
for step in range(10):
    if step % 5 == 0:
        features = trunk(x)
    loss = (head(features) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
