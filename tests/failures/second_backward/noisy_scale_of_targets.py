# code: BS201
# variable: goal
# cause: goal = scale * torch.sin(times).pow(2)
# fix: goal = goal.detach()
import torch
from torch import nn

torch.manual_seed(0)
times = torch.linspace(0, 3, 40)
scale = torch.tensor(1.5, requires_grad=True)
goal = scale * torch.sin(times).pow(2)
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(2):
    for t, y in zip(times.split(10), goal.split(10)):
        loss = (net(t[:, None])[:, 0] - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
