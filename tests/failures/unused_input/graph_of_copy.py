# code: BS204
# variable: scaled
# cause: y = net(points)
# fix: scaled
import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))


def residual(points):
    x = points.clone().requires_grad_()
    y = net(points)
    scaled = x * 2.0
    (dy,) = torch.autograd.grad(y.sum(), scaled)
    return dy


residual(torch.rand(5, 2))
