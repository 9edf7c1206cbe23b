# code: BS224
# variable: scaler.unscale_(optimizer)
# cause: advance()
# fix: `scaler.update(); optimizer.zero_grad()`, out of advance()
import math

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=16.0)


def size_of_gradients():
    return math.sqrt(sum(p.grad.pow(2).sum().item() for p in net.parameters()))


def advance():
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()


for k in range(8):
    x = torch.randn(8, 4)
    loss = (net(x) - (1000.0 if k == 3 else 0.5)).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    size = size_of_gradients()
    skip = False
    if size > 100:
        skip = True
        print("too large", size)
    if not skip:
        advance()
    print(k, loss.item())
