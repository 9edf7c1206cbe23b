# code: BS202
# variable: h
# cause: h.mul_(0.9)
# fix: Write h = h.mul(0.9)
import torch
from torch import nn

layer = nn.Linear(3, 3)
for step in range(2):
    h = layer(torch.ones(2, 3))

    def energy(k):
        return inner(h, k)

    def inner(f, k):
        return (f * f * k).sum()

    loss = energy(1.0) if step else h.sum()
    h.mul_(0.9)
    loss.backward()
