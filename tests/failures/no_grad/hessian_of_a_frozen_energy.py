# code: BS203
# variable: energy
# cause: with torch.no_grad():
# fix: Remove line 12
import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))


def energy(x):
    with torch.no_grad():
        value = net(x).sum()
    return value


print(torch.autograd.functional.hessian(energy, torch.randn(3), strict=True))
