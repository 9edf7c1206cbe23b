# code: BS210
# variable: block
# cause: self.kept = torch.tanh(self.table[torch.arange(4)])
# fix: remove line 17
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Bias(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(9))
        self.kept, self.version = None, 0

    def forward(self, x, version):
        if self.version != version:
            self.kept = torch.tanh(self.table[torch.arange(4)])
            self.version = version
        return x * self.kept


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.bias = nn.Linear(4, 4), Bias()

    def forward(self, x, version):
        return self.linear(self.bias(x, version))


block = Block()
for step in range(1, 3):
    out = checkpoint(block, torch.randn(2, 4), step, use_reentrant=False)
    out.sum().backward()
