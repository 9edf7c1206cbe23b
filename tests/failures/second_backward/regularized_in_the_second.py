# code: BS201
# variable: h
# cause: h = torch.tanh(model(x))
# fix: write regularize(h.detach())
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)


def regularize(features):
    features.mean().backward()


for again in (False, True):
    h = torch.tanh(model(x))
    if again:
        regularize(h)
    head(h).sum().backward()
