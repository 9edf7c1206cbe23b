# code: BS201
# variable: left
# cause: second = (left * 2).sin().mean() + (right * 3).cos().mean()
# fix: Run lines 14 to 16 again below line 20
import torch
from torch import nn

trunk = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
one, two = nn.Linear(8, 1), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*trunk.parameters(), *one.parameters(), *two.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(3, 4)
    print(step)
    h = trunk(x)
    left = one(h).exp()
    right = two(h).exp()
    first = (left - 1).pow(2).mean() + right.mean()
    optimizer.zero_grad()
    first.backward()
    optimizer.step()
    second = (left * 2).sin().mean() + (right * 3).cos().mean()
    optimizer.zero_grad()
    second.backward()
    optimizer.step()
