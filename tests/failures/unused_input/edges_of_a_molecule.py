# code: BS204
# variable: self.edges was computed from it before
# cause: data.pos.requires_grad_(True)
# fix: Put `self.pos.requires_grad_()` above line 15
import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


class Molecule:
    def __init__(self, n):
        self.charge = torch.ones(n, 1)
        self.pos = torch.randn(n, 3)
        self.edges = self.pos.unsqueeze(0) - self.pos.unsqueeze(1)


data = Molecule(4)
data.pos.requires_grad_(True)
energy = (net(data.edges).squeeze(-1) * data.charge).sum()
print(torch.autograd.grad(energy, data.pos))
