# code: BS210
# variable: block
# cause: self.calls += 1
# fix: block.calls += 1
# unsure: no operation tells where the runs part
import random

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

random.seed(1), np.random.seed(1)
generator, draw = np.random.default_rng(1), random.random
x = torch.ones(3, requires_grad=True)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x.sin() if self.calls == 1 else x.sin().cos()


block = Block()
with torch.utils.checkpoint.set_checkpoint_early_stop(False):
    y = checkpoint(block, x, use_reentrant=False)
y.sum().backward()
