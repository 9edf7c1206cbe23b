"""Activation checkpointing around blocks that are skipped at random (stochastic depth).

What is wrong: backward runs the block again. `random.random()` then gives another number, so a block that ran
               in the forward pass may be skipped in the recomputation.
PyTorch says:  A different number of tensors was saved during the original forward and recomputation
Fix:          draw from PyTorch, `torch.rand(()) < self.drop_rate`: checkpoint restores PyTorch's random state
               before it recomputes (preserve_rng_state=True), but not that of Python's random module.
"""

import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class StochasticBlock(nn.Module):
    def __init__(self, width, drop_rate):
        super().__init__()
        self.drop_rate = drop_rate
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())

    def forward(self, x):
        if self.training and random.random() < self.drop_rate:
            return x
        return x + self.mlp(x)


random.seed(0)
torch.manual_seed(0)
embed, head = nn.Linear(16, 64), nn.Linear(64, 10)
blocks = nn.ModuleList(StochasticBlock(64, drop_rate=0.3) for _ in range(8))

x = embed(torch.randn(32, 16))
for block in blocks:
    x = checkpoint(block, x, use_reentrant=False)
loss = F.cross_entropy(head(x), torch.randint(0, 10, (32,)))
loss.backward()
