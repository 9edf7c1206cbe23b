# code: BS203
# variable: penalty
# cause: settings = Settings(0.5, False)
# fix: settings = Settings(0.5, True)
import dataclasses

import torch
from torch import nn


@dataclasses.dataclass
class Settings:
    weight: float
    exact: bool = False


class Penalised(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(3, 8), nn.ELU(), nn.Linear(8, 1))
        self.settings = settings

    def slopes(self, x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(self.critic(x).sum(), x, create_graph=self.settings.exact)[0]


settings = Settings(0.5, False)
model = Penalised(settings)
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    slopes = model.slopes(torch.randn(4, 3))
    penalty = settings.weight * (slopes.norm(dim=1) - 1).square().mean()
    optimizer.zero_grad()
    penalty.backward()
    optimizer.step()
