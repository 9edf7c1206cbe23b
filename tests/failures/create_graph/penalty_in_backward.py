# code: BS217
# variable: loss
# cause: loss.backward(create_graph=True)
# fix: torch.autograd.grad
import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    loss = model(torch.randn(5, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward(create_graph=True)
    penalty = sum(p.grad.square().sum() for p in model.parameters())
    penalty.backward()
    optimizer.step()
