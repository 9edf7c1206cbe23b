# code: BS202
# variable: gate
# cause: gate *= 2
# fix: Write gate = gate * 2
import torch
from torch import nn


def squashed(x):
    return torch.sigmoid(layer(x))


layer = nn.Linear(3, 3)
gate = squashed(torch.ones(2, 3))
gate *= 2
gate.sum().backward()
