# code: BS210
# variable: block
# cause: if random.random() < 0.5:
# fix: on line 24, write `if torch.rand(()) < 0.5:`
# or: if draw() < 0.5:
# or: if np.random.rand() < 0.5:
# or: if generator.random() < 0.5:
# or: if random.gauss(0.5, 0.2) < 0.5:
# or: if random.randint(0, 1) < 0.5:
# or: if random.choice([0.0, 1.0]) < 0.5:
import random

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

random.seed(1), np.random.seed(1)
generator, draw = np.random.default_rng(1), random.random
x = torch.ones(3, requires_grad=True)


def block(x):
    if random.random() < 0.5:
        return x * 2
    return x.sin().cos().exp()


for _ in range(100):
    y = checkpoint(block, x, use_reentrant=False)
    y.sum().backward()
