# code: BS205
# variable: net.layers.0.weight
# cause: self.layers[0].weight *= mask
# fix: new_weight = self.layers[0].weight.clone()
"""A masked layer: its forward multiplies the weight by a mask before it computes with it."""

import torch
from torch import nn
from torch.nn import functional as F


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x, mask):
        self.layers[0].weight *= mask
        return self.layers[1](F.linear(x, self.layers[0].weight))


net = Masked()
net(torch.ones(2, 4), torch.eye(4)).sum().backward()
