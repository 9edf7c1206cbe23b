# code: BS219
# variable: experts[1].cache
# cause: targets = [copy.deepcopy(each) for each in experts]
# fix: experts[1].cache = experts[1].cache.detach()
import copy

import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.cache = nn.Linear(2, 2), None

    def forward(self, x):
        self.cache = self.layer(x)
        return self.cache


experts = nn.ModuleList([Expert(), Expert()])
experts[1](torch.ones(1, 2)).sum().backward()
targets = [copy.deepcopy(each) for each in experts]
