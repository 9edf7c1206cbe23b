# code: BS202
# variable: target.2.weight
# cause: t.copy_(self.tau * p + (1 - self.tau) * t)
# fix: below
import copy

import torch
from torch import nn


class SoftUpdate:
    def __init__(self, online, target, tau=0.01):
        self.online, self.target, self.tau = online, target, tau

    def __call__(self):
        with torch.no_grad():
            for p, t in zip(self.online.parameters(), self.target.parameters()):
                t.copy_(self.tau * p + (1 - self.tau) * t)


online = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
target = copy.deepcopy(online).requires_grad_(False)
soft_update = SoftUpdate(online, target)
optimizer = torch.optim.Adam(online.parameters())
policy = nn.Linear(3, 4)

for _ in range(2):
    state = policy(torch.randn(5, 3))
    loss = (online(state) - target(state)).pow(2).mean()
    soft_update()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
