# code: BS201
# variable: self.belief.h | belief.h | filter.belief.h | tracker.belief.h
# cause: belief.h, belief.c = self.cell(seen, (belief.h, belief.c))
# fix: self.belief.h = self.belief.h.detach(); self.belief.c = self.belief.c.detach()
"""A filter whose belief is a dataclass that a method of another object updates."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Belief:
    h: torch.Tensor
    c: torch.Tensor


class Filter(nn.Module):
    def __init__(self, size=5):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(3, size), nn.Linear(size, 3)

    def observe(self, belief, seen):
        belief.h, belief.c = self.cell(seen, (belief.h, belief.c))
        return self.head(belief.h)


class Tracker:
    def __init__(self):
        self.filter = Filter()
        self.belief = Belief(torch.zeros(2, 5), torch.zeros(2, 5))
        self.optimizer = torch.optim.SGD(self.filter.parameters(), lr=0.1)

    def step(self, seen, after):
        error = (self.filter.observe(self.belief, seen) - after).square().mean()
        self.optimizer.zero_grad()
        error.backward()
        self.optimizer.step()


torch.manual_seed(0)
tracker = Tracker()
walk = torch.randn(5, 2, 3).cumsum(0)
for seen, after in zip(walk, walk[1:]):
    tracker.step(seen, after)
