# code: BS201
# variable: ensembling.recent
# cause: self.recent.append(guess.softmax(1))
# fix: self.recent.append(guess.softmax(1).detach())
"""Temporal ensembling: the mean of the last few predictions is the target of the next one."""

from collections import deque

import torch
from torch import nn


class Ensembling:
    def __init__(self, net, last=3):
        self.net, self.recent = net, deque(maxlen=last)

    def consistency(self, guess):
        if not self.recent:
            return guess.new_zeros(())
        target = torch.stack(tuple(self.recent)).mean(0)
        return nn.functional.mse_loss(guess.softmax(1), target)

    def loss(self, x, y):
        guess = self.net(x + 0.1 * torch.randn_like(x))
        total = nn.functional.cross_entropy(guess, y) + self.consistency(guess)
        self.recent.append(guess.softmax(1))
        return total


torch.manual_seed(0)
ensembling = Ensembling(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)))
optimizer = torch.optim.SGD(ensembling.net.parameters(), lr=0.1)
x, y = torch.randn(12, 5), torch.randint(3, (12,))
for epoch in range(4):
    loss = ensembling.loss(x, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
