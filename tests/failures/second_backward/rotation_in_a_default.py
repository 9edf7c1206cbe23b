# code: BS201
# variable: _made
# cause: _made[name] = torch.linalg.qr(proj.weight)[0]
# fix: Recompute torch.linalg.qr(proj.weight)[0] in each step
"""A cache in the default of a parameter."""

import torch
from torch import nn
proj = nn.Linear(4, 4)
def rotation(name, _made={}):
    if name not in _made:
        _made[name] = torch.linalg.qr(proj.weight)[0]
    return _made[name]
net = nn.Linear(4, 4)
opt = torch.optim.SGD([*net.parameters(), *proj.parameters()], lr=0.1)
for _ in range(3):
    loss = (net(torch.randn(3, 4)) @ rotation("a")).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
