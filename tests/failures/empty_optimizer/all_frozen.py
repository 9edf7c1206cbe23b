# code: BS223
# variable: backbone
# cause: p.requires_grad = False
# fix: requires_grad_(True)
import torch
from torch import nn


def freeze(module):
    for p in module.parameters():
        p.requires_grad = False


backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 10))
freeze(backbone)
optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, backbone.parameters()), lr=0.01)
