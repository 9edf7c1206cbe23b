# code: BS209
# variable: hue
# cause: hue.mul_(0.5)
# fix: line 13 reads colors, which a new hue is not written into
import torch
from torch import nn


def damped(colors):
    colors = colors.clone()
    hue, value = colors.unbind(dim=1)
    hue.mul_(0.5)
    return colors


net = nn.Linear(3, 2)
loss = damped(net(torch.randn(4, 3))).square().sum()
loss.backward()
