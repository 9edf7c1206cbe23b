# code: BS223
# variable: outer.mixer
# cause: def init(self):
# fix: Rename init to __init__
import torch
from torch import nn


class Mixer(nn.Module):
    def init(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3))

    def forward(self, x):
        return x @ self.w


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.mixer = Mixer()

    def forward(self, x):
        return self.mixer(x)


outer = Outer()
torch.optim.SGD(outer.parameters(), lr=0.1)
