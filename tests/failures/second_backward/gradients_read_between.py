# code: BS201
# variable: loss
# line: 15
# fix: Call backward on loss once: remove line 15, and move line 14 above line 12
import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, x in enumerate(torch.randn(2, 5, 3)):
    loss = model(x).square().mean()
    loss.backward()
    largest = max(p.grad.abs().max().item() for p in model.parameters())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, largest)
