# code: BS223
# variable: model.heads
# cause: self.heads = Heads(nn.Linear(d, 1), nn.Linear(d, 1))
# fix: self.heads_modules = nn.ModuleList([self.heads.mean, self.heads.scale])
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Heads:
    mean: nn.Module
    scale: nn.Module


class Gaussian(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.heads = Heads(nn.Linear(d, 1), nn.Linear(d, 1))

    def forward(self, x):
        return self.heads.mean(x), self.heads.scale(x).exp()


torch.manual_seed(0)
model = Gaussian(6)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 6)
for step in range(3):
    mean, scale = model(x)
    loss = ((mean - x[:, :1]) / scale).pow(2).mean() + scale.log().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
