"""A stochastic differential equation learns a distribution of paths, by the adjoint method."""

import torch
import torchsde
from _digest import digest
from torch import nn

torch.manual_seed(0)


class SDE(nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
        self.spread = nn.Parameter(torch.full((2,), -1.0))

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return self.spread.exp().expand_as(y)


sde = SDE()
optimizer = torch.optim.Adam(sde.parameters(), lr=1e-2)
times = torch.linspace(0, 1, 6)
for step in range(12):
    start = torch.ones(16, 2)
    brownian = torchsde.BrownianInterval(0.0, 1.0, size=(16, 2), entropy=step)
    paths = torchsde.sdeint_adjoint(sde, start, times, dt=0.1, method="euler", bm=brownian)
    loss = (paths[-1].mean(dim=0) - 0.2).square().sum() + (paths[-1].var(dim=0) - 0.3).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
print(digest(sde))
