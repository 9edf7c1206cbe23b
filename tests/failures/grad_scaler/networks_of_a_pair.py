# code: BS224
# variable: optimizer
# cause: return Pair(target, online)
# fix: write `return Pair(online, target)`
import copy
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Pair:
    online: nn.Module
    target: nn.Module


def pair_of(width):
    online = nn.Sequential(nn.Linear(5, width), nn.ReLU(), nn.Linear(width, 3))
    target = copy.deepcopy(online).requires_grad_(False)
    return Pair(target, online)


pair = pair_of(8)
optimizer = torch.optim.Adam(pair.online.parameters())
scaler = torch.amp.GradScaler("cpu")
for step in range(2):
    states, following = torch.randn(6, 5), torch.randn(6, 5)
    best = pair.target(following).amax(1)
    loss = (pair.online(states)[:, 0] - 0.9 * best).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
