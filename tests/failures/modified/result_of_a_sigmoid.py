# code: BS202
# variable: y
# cause: y += 1
# fix: Write y = y + 1
# or: y *= x.detach()
# or: y.neg_()
# or: y.add_(1)
# or: torch.relu_(y)
# or: y[0] = 1
# or: y[0] += 1
# or: y.view(-1).zero_()
# or: F.relu(y, inplace=True)
# or: z = F.relu(y, inplace=True)
# or: nn.ReLU(inplace=True)(y)
# or: act(y)
import torch
import torch.nn.functional as F
from torch import nn


def train(act=nn.ReLU(inplace=True)):
    x = torch.randn(3, requires_grad=True)
    y = torch.sigmoid(x)
    y += 1
    y.sum().backward()


train()
