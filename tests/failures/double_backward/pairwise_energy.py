# code: BS215
# variable: cdist
# cause: distances = torch.cdist(positions, self.centres)
# fix: ((positions.unsqueeze(-2) - self.centres.unsqueeze(-3)).square().sum(-1) + 1e-12).sqrt()
# mended: PyTorch has second derivatives of distances from 2.14 on
import torch
from torch import nn


class Potential(nn.Module):
    def __init__(self, centres):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(centres, 3))
        self.depth = nn.Parameter(torch.ones(centres))

    def forward(self, positions):
        distances = torch.cdist(positions, self.centres)
        return (self.depth * torch.exp(-distances)).sum()


def force_matching(model, positions, forces):
    energy = model(positions)
    (gradient,) = torch.autograd.grad(energy, positions, create_graph=True)
    return (gradient + forces).square().mean()


model = Potential(centres=4)
optimizer = torch.optim.Adam(model.parameters())
loss = force_matching(model, torch.randn(5, 3, requires_grad=True), torch.randn(5, 3))
optimizer.zero_grad()
loss.backward()
