# code: BS202
# variable: h
# cause: h.mul_(0.9)
# fix: Write h = h.mul(0.9)
# varied: energy = (lambda f: lambda k: (f * f * k).sum())(h)
# or: def energy_of(f):\n    def energy(k):\n        return (f * f * k).sum()\n    return energy\nenergy = energy_of(h)
# or: def energy(k):\n    return inner(h, k)
import torch
from torch import nn


def inner(f, k):
    return (f * f * k).sum()


layer = nn.Linear(3, 3)
for step in range(2):
    h = layer(torch.ones(2, 3))
    energy = (lambda f: lambda k: (f * f * k).sum())(h)
    loss = energy(1.0) if step else h.sum()
    h.mul_(0.9)
    loss.backward()
