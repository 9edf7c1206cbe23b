# code: BS200
# variable: torch.autograd.grad(energy, positions)
# cause: features = checkpoint(self.body, positions, use_reentrant=True)
# fix: features = checkpoint(self.body, positions, use_reentrant=False)
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.head = nn.Linear(16, 1)

    def forward(self, positions):
        features = checkpoint(self.body, positions, use_reentrant=True)
        return self.head(features).sum()


def forces(potential, positions):
    positions = positions.clone().requires_grad_(True)
    energy = potential(positions)
    return -torch.autograd.grad(energy, positions)[0]


print(forces(Potential(), torch.randn(7, 3)))
