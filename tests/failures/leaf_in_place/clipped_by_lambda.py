# code: BS205
# variable: net.0.weight
# cause: clip = lambda m: m.weight.clamp_(-1, 1) if isinstance(m, nn.Linear) else None
# fix: torch.no_grad()
import torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
clip = lambda m: m.weight.clamp_(-1, 1) if isinstance(m, nn.Linear) else None
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = net(torch.randn(4, 3)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.apply(clip)
