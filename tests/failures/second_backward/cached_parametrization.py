# code: BS201
# variable: parametrized weight
# cause: with parametrize.cached():
# fix: inside the loop
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

layer = parametrizations.orthogonal(nn.Linear(4, 4))
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
with parametrize.cached():
    for step in range(3):
        optimizer.zero_grad()
        loss = layer(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
