# code: BS213
# variable: noised
# cause: noised = way(x)
# fix: put `noised.retain_grad()` below line 18
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scale = nn.Parameter(torch.ones(5))
ways = [lambda x: x + torch.randn_like(x), lambda x: scale * x]

for _ in range(3):
    for way in ways:
        x = torch.randn(8, 5)
        noised = way(x)
        noised.requires_grad_()
        loss = net(noised).square().mean()
        optimizer.zero_grad()
        loss.backward()
        print(noised.grad.norm().item())
        optimizer.step()
