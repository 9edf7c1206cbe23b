# code: BS201
# variable: loss
# line: 23
# fix: remove line 23
import torch
from torch import nn

torch.manual_seed(6)
net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)


def show(loss):
    loss.backward()
    print([round(p.grad.norm().item(), 3) for p in net.parameters()])


for step in range(3):
    x = torch.randn(16, 4)
    optimizer.zero_grad()
    loss = (net(x) - x[:, :1]).square().mean()
    show(loss)
    loss.backward()
    optimizer.step()
