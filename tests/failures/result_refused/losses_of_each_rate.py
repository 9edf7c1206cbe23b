# code: BS219
# variable: curves[k]
# cause: print(rate, np.log10(curves[k])[-1])
# fix: [each.detach() for each in curves[k]]
import numpy as np
import torch
from torch import nn


def step(model, optimizer):
    loss = model(torch.randn(16, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


rates, curves = [0.01, 0.1], []
for rate in rates:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    curve = []
    for _ in range(5):
        loss = step(model, optimizer)
        curve.append(loss)
    curves.append(curve)

for k, rate in enumerate(rates):
    print(rate, np.log10(curves[k])[-1])
