# code: BS225
# variable: self.head.weight
# cause: return scaled.reshape(-1)
# fix: return nothing
import torch
from torch import nn


class Limit:
    def __init__(self, most):
        self.most = most

    def __call__(self, gradient):
        scaled = gradient * (self.most / gradient.norm())
        return scaled.reshape(-1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.limit = Limit(0.1)
        self.head.weight.register_hook(self.limit)

    def forward(self, x):
        return self.head(x)


Tagger()(torch.randn(3, 4)).sum().backward()
