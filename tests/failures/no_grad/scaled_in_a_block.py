# code: BS203
# variable: loss
# cause: with torch.no_grad():
# fix: End the block before line 14: dedent lines 14 to 15
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def score(x):
    with torch.no_grad():
        scale = x.abs().max()
        y = net(x / scale)
        z = y.square().mean()
    return z


optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 5, 4):
    loss = score(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
