# code: BS204
# variable: t
# cause: t.requires_grad_(True)
# fix: Move line 11, `t.requires_grad_(True)`, above line
import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
x, t = torch.rand(16, 1, requires_grad=True), torch.rand(16, 1)
inputs = torch.cat([x, t], dim=1)
t.requires_grad_(True)
u = net(inputs)
velocity = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
velocity.square().mean().backward()
