# code: BS205
# variable: model.blocks.first.weight
# cause: self.blocks[name].weight.mul_(keep)
# fix: Put lines 18 and 19 inside `with torch.no_grad():`
"""Prune the blocks of a model, each by a mask of its own."""

import torch
from torch import nn


class Pruned(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleDict({"first": nn.Linear(4, 4), "second": nn.Linear(4, 4)})

    def prune(self, masks):
        for name, keep in masks.items():
            self.blocks[name].weight.mul_(keep)
            self.blocks[name].bias[2:] = 0.0

    def forward(self, x):
        return self.blocks["second"](torch.relu(self.blocks["first"](x)))


model = Pruned()
model.prune({"first": torch.eye(4), "second": torch.ones(4, 4).tril()})
model(torch.ones(2, 4)).sum().backward()
