# code: BS219
# variable: parts['net']
# cause: average = copy.deepcopy(parts["net"])
# fix: torch.nn.utils.parametrizations.weight_norm
import copy

import torch
from torch import nn
from torch.nn.utils import weight_norm


def block(width):
    return nn.Sequential(weight_norm(nn.Linear(width, width)), nn.Tanh())


torch.manual_seed(0)
parts = {"net": nn.Sequential(block(4), nn.Linear(4, 1))}
optimizer = torch.optim.SGD(parts["net"].parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(8, 4)
    loss = (parts["net"](x) - x.mean(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
average = copy.deepcopy(parts["net"])
