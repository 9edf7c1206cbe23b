# code: BS200
# variable: maps.retain_grad()
# cause: maps.retain_grad()
# fix: maps.requires_grad_()
import torch
from torch import nn

net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU())
head = nn.Linear(4, 2)
for p in [*net.parameters(), *head.parameters()]:
    p.requires_grad_(False)


def saliency(image):
    maps = net(image)
    score = head(maps.mean((2, 3)))[:, 1]
    maps.retain_grad()
    score.sum().backward()
    return maps.grad.abs().sum(1)


saliency(torch.rand(2, 1, 6, 6))
