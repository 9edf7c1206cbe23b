# code: BS225
# variable: out
# cause: return torch.cat([gradient, torch.zeros(gradient.shape[0], extra)], 1)
# fix: must have the same shape
import torch
from torch import nn


def padding(extra):
    def pad(gradient):
        return torch.cat([gradient, torch.zeros(gradient.shape[0], extra)], 1)

    return pad


layer = nn.Linear(3, 3)
out = layer(torch.randn(2, 3))
out.register_hook(padding(2))
out.sum().backward()
