# code: BS204
# variable: x
# cause: with torch.no_grad():
# fix: `with torch.no_grad()
"""The function is under no_grad, one block enables gradients, and a block inside that disables them again."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))


@torch.no_grad()
def attack(x):
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        with torch.no_grad():
            hidden = net[:2](x)
        loss = net[2](hidden).sum()
        return torch.autograd.grad(loss, x)[0]


attack(torch.randn(5, 2))
