# code: BS210
# variable: encode
# cause: n = random.randint(2, 9)
# fix: write `n = int(torch.randint(2, 10, ()))`; on line 17, write
import random

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

layer, rng = nn.Linear(6, 6), np.random.default_rng(2)


def encode(x):
    n = random.randint(2, 9)
    rows = rng.integers(len(x), size=n)
    return torch.tanh(layer(x[rows])).mean()


random.seed(3)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(20):
    x = torch.randn(12, 6)
    optimizer.zero_grad()
    loss = checkpoint(encode, x, use_reentrant=False)
    loss.backward()
    optimizer.step()
