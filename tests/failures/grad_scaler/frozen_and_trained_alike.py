# code: BS224
# variable: 1 parameter of optimizer
# cause: net = net.to(device, low)
# fix: net without the cast
import torch
from torch import nn

device, low = torch.device("cpu"), torch.half
net, other = nn.Linear(5, 1, bias=False), nn.Linear(5, 1).to(low)
net = net.to(device, low)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for x in torch.randn(3, 8, 5):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=low):
        loss = (net(x) - other(x).detach()).float().square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
