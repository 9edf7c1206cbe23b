# code: BS210
# variable: block
# file: _augment.py
# cause: if np.random.rand() < probability:
# fix: torch.rand
import numpy as np
import torch
from _augment import cutout
from torch import nn
from torch.utils.checkpoint import checkpoint

np.random.seed(0)
layer = nn.Linear(6, 6)


def block(x):
    return torch.tanh(cutout(layer(x), probability=0.5))


x = torch.randn(4, 6, requires_grad=True)
loss = sum(checkpoint(block, x, use_reentrant=False).sum() for _ in range(8))
loss.backward()
