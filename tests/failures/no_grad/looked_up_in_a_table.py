# code: BS203
# variable: look_up
# cause: return torch.linspace(0, 1, 100)[offset.long()]
# fix: Keep offset in floating point
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)


def look_up(x):
    offset = model(x).abs().sum(1)
    return torch.linspace(0, 1, 100)[offset.long()]


look_up(x).sum().backward()
