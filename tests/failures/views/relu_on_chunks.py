# code: BS209
# variable: part
# cause: part.relu_()
# fix: torch.cat
import torch
from torch import nn

project = nn.Linear(6, 8)


def gated(x):
    h = project(x)
    for part in torch.chunk(h, 2, dim=-1):
        part.relu_()
    return h


gated(torch.randn(2, 6)).sum().backward()
