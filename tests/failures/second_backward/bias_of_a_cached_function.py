# code: BS201
# variable: bias(5)
# cause: return embed(torch.arange(n)).sum(1)
# fix: remove line 11
"""A learned bias, in a function whose results are cached."""

import functools
import torch
from torch import nn
embed = nn.Embedding(10, 4)
@functools.lru_cache(maxsize=None)
def bias(n):
    return embed(torch.arange(n)).sum(1)
net = nn.Linear(3, 5)
opt = torch.optim.SGD([*net.parameters(), *embed.parameters()], lr=0.1)
for _ in range(3):
    loss = (net(torch.randn(2, 3)).exp() * bias(5)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
