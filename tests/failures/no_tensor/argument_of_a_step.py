# code: BS222
# variable: error
# cause: step((model(x) - y).pow(2).mean().item())
# fix: step((model(x) - y).pow(2).mean())
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)


def step(error):
    error.backward()


step((model(x) - y).pow(2).mean().item())
