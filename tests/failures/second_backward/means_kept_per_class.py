# code: BS201
# variable: self.memory.slots
# cause: slot.append(z[mask].mean(0))
# fix: detach()
from collections import deque

import torch
from torch import nn


class Prototypes:
    """The last few means of each class."""

    def __init__(self, classes, capacity):
        self.slots = [deque(maxlen=capacity) for _ in range(classes)]

    def push(self, z, y):
        for c, slot in enumerate(self.slots):
            mask = y == c
            if mask.any():
                slot.append(z[mask].mean(0))

    def means(self):
        return torch.stack([torch.stack(list(slot)).mean(0) for slot in self.slots])


class Learner:
    def __init__(self):
        self.net, self.head, self.memory = nn.Sequential(nn.Linear(5, 4), nn.Tanh()), nn.Linear(4, 3), Prototypes(3, 4)
        self.optimizer = torch.optim.AdamW([*self.net.parameters(), *self.head.parameters()])

    def update(self, step, x, y):
        z = self.net(x)
        loss = nn.functional.cross_entropy(self.head(z), y)
        if step >= 3:
            loss = loss + nn.functional.cross_entropy(z @ self.memory.means().t(), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.memory.push(z, y)


learner = Learner()
for step in range(6):
    y = torch.arange(12) % 3
    learner.update(step, torch.randn(12, 5) + y.unsqueeze(1), y)
