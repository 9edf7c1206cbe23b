# code: BS203
# variable: loss
# cause: momentum, online = encoders()
# fix: write `online, momentum = encoders()`
import copy

import torch
from torch import nn


def encoders():
    online = nn.Linear(6, 4)
    momentum = copy.deepcopy(online)
    momentum.requires_grad_(False)
    return online, momentum


momentum, online = encoders()
optimizer = torch.optim.Adam(online.parameters())
for step in range(3):
    x = torch.randn(8, 6)
    with torch.no_grad():
        target = momentum(x + 0.1)
    loss = -nn.functional.cosine_similarity(online(x), target).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
