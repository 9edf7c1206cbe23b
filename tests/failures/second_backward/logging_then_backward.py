# code: BS201
# variable: loss
# line: 25
# fix: Call backward on loss once
import torch
from torch import nn


class Meter:
    def __init__(self):
        self.norms = []

    def update(self, loss, parameters):
        loss.backward()
        self.norms.append(sum(p.grad.norm().item() for p in parameters))


model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
meter = Meter()
for x in torch.randn(2, 5, 3):
    loss = model(x).square().mean()
    meter.update(loss, model.parameters())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
