# code: BS202
# variable: gate | self.model.0.act
# cause: return gate * self.act(gate)
# fix: Create that ReLU without inplace=True
import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.act = nn.Linear(4, 4), nn.ReLU(inplace=True)

    def forward(self, x):
        gate = torch.sigmoid(self.layer(x))
        return gate * self.act(gate)


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(Gated(), nn.Linear(4, 1))

    def step(self):
        self.model(torch.randn(5, 4)).sum().backward()


Trainer().step()
