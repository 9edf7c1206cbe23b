# code: BS205
# variable: net.weight | weight
# cause: weight.div_(weight.norm(dim=1, keepdim=True))
# fix: no_grad
import torch
from torch import nn


def unit_rows(weight):
    weight.div_(weight.norm(dim=1, keepdim=True))
    return weight


net = nn.Linear(4, 3)
unit_rows(net.weight)
