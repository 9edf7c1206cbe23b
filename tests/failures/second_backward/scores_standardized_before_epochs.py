# code: BS201
# variable: before
# cause: before, gains = rated(policy, seen)
# fix: put before = before.detach() before line 23
"""A policy that is compared with itself as it was, and gains that are standardized between."""

import torch
from torch import nn


def rated(policy, seen):
    chances = torch.log_softmax(policy(seen), dim=1)[:, 0]
    return chances, seen.sum(1)


torch.manual_seed(0)
seen = torch.randn(32, 4)
policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
before, gains = rated(policy, seen)
with torch.no_grad():
    gains = (gains - gains.mean()) / gains.std()
for epoch in range(4):
    chances = torch.log_softmax(policy(seen), dim=1)[:, 0]
    loss = -(torch.exp(chances - before) * gains).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
