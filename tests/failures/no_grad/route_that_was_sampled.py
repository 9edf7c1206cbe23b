# code: BS203
# variable: cost
# cause: step = heading.sample()
# fix: `step = heading.rsample()`
"""Steps that are drawn from a policy, and judged by a map that is known."""

import torch
from torch import distributions as D
from torch import nn


class Walker(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 4)

    def forward(self, at):
        mean, spread = self.head(at).chunk(2, dim=-1)
        return D.Independent(D.Normal(mean, spread.exp()), 1)

    def walk(self, at, steps=3):
        for _ in range(steps):
            heading = self(at)
            step = heading.sample()
            at = at + step
        return at


walker = Walker()
optimizer = torch.optim.Adam(walker.parameters())
goal = torch.tensor([3.0, 1.0])
for _ in range(3):
    end = walker.walk(torch.zeros(16, 2))
    cost = (end - goal).square().sum(1).mean()
    optimizer.zero_grad()
    cost.backward()
    optimizer.step()
