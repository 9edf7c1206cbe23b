# code: BS210
# variable: blocks.7
# cause: if self.training and random.random() < 0.5:
# fix: torch.rand
import random

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class DropBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        h = torch.relu(self.a(x))
        if self.training and random.random() < 0.5:
            return h
        return x + torch.sigmoid(self.b(h)) * h


random.seed(7)
blocks = nn.ModuleList(DropBlock(6) for _ in range(12))
x = torch.randn(3, 6)
for block in blocks:
    x = checkpoint(block, x, use_reentrant=False)
x.sum().backward()
