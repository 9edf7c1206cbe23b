# code: BS204
# variable: atoms.scaled()
# cause: return (self.positions - self.positions.mean(0)) / self.unit
# fix: Call atoms.scaled() once
import torch
from torch import nn


class Atoms:
    def __init__(self, positions, unit=1.5):
        self.positions = positions.requires_grad_()
        self.unit = unit

    def scaled(self):
        return (self.positions - self.positions.mean(0)) / self.unit


def energy(net, atoms):
    return net(torch.cdist(atoms.scaled(), torch.zeros(1, 3))).sum()


def forces(total, of):
    return -torch.autograd.grad(total, of, create_graph=True)[0]


net = nn.Sequential(nn.Linear(1, 8), nn.SiLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters())
for step in range(3):
    atoms = Atoms(torch.randn(7, 3))
    total = energy(net, atoms)
    loss = (forces(total, atoms.scaled()) - torch.ones(7, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
