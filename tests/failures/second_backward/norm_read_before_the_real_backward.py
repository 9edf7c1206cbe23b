# code: BS201
# variable: loss
# line: 18
# fix: Call backward on loss once: remove line 18
import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, x in enumerate(torch.randn(2, 5, 3)):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), torch.tensor([0, 1, 0, 1, 1]))
    loss.backward()
    norm = 0.0
    for p in model.parameters():
        norm += p.grad.norm().item()
    print(step, norm)
    loss.backward()
    optimizer.step()
