# code: BS209
# variable: qkv
# cause: qkv *= 0.5
# fix: qkv
import torch
from torch import nn

project = nn.Linear(4, 12)


def attend(x):
    qkv = project(x)
    q, k, v = qkv.split(4, dim=-1)
    qkv *= 0.5
    return torch.softmax(q @ k.transpose(-1, -2), dim=-1) @ v


attend(torch.randn(2, 3, 4)).sum().backward()
