# code: BS203
# variable: slope
# cause: (slope,) = torch.autograd.grad(u, t, torch.ones_like(u))
# fix: Keep the graph of slope
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)


def residual(t):
    u = net(t)
    (slope,) = torch.autograd.grad(u, t, torch.ones_like(u))
    curvature = torch.autograd.grad(u, slope, torch.ones_like(u), create_graph=True)[0]
    return curvature + 4 * u


for _ in range(3):
    t = torch.rand(16, 1, requires_grad=True)
    loss = residual(t).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
