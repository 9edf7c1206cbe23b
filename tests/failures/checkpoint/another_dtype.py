# code: BS210
# variable: block
# cause: calls[0] += 1
# fix: Change calls outside the checkpointed function
import random

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

random.seed(1), np.random.seed(1)
generator, draw = np.random.default_rng(1), random.random
x = torch.ones(3, requires_grad=True)

calls = [0]


def block(x):
    calls[0] += 1
    return (x.double() if calls[0] > 1 else x).sin().float()


y = checkpoint(block, x, use_reentrant=False)
y.sum().backward()
