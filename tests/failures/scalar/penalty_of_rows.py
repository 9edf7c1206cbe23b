# code: BS212
# variable: out
# cause: slopes = torch.autograd.grad(out, mixed, create_graph=True)[0]
# fix: out.sum()
"""A gradient penalty asks for the derivative of each row's score."""

import torch
from torch import nn

torch.manual_seed(0)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        return self.model(x)


critic = Critic()
mixed = torch.rand(6, 4, requires_grad=True)
out = critic(mixed)
slopes = torch.autograd.grad(out, mixed, create_graph=True)[0]
((slopes.norm(dim=1) - 1) ** 2).mean().backward()
