# code: BS200
# variable: torch.autograd.backward
# cause: torch.autograd.backward(parts + rest, [torch.ones(1) for _ in range(4)])
# fix: torch.ones_like(each) for each in parts + rest
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    out = net(torch.randn(8, 4))
    parts = [out[:, k].pow(2).mean() for k in range(2)]
    parts += [net.weight.abs().sum()]
    rest = [out.mean().abs()]
    optimizer.zero_grad()
    torch.autograd.backward(parts + rest, [torch.ones(1) for _ in range(4)])
    optimizer.step()
