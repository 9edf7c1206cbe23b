# code: BS209
# variable: a
# cause: a *= torch.sigmoid(b)
# fix: Write a = a * torch.sigmoid(b)
# or: a.exp_()
# or: a[0] = 0
# or: F.relu(a, inplace=True)
# or: act(a)
import torch
import torch.nn.functional as F
from torch import nn


def gated(act=nn.ReLU(inplace=True)):
    h = nn.Linear(4, 4)(torch.randn(2, 4))
    a, b = h.chunk(2, dim=1)
    a *= torch.sigmoid(b)


gated()
