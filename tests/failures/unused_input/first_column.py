# code: BS204
# variable: u
# cause: u_x = torch.autograd.grad(u.sum(), x[:, :1])[0]
# fix: torch.autograd.grad(
import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.rand(10, 2, requires_grad=True)
t = torch.rand(10, 2, requires_grad=True)
u = net(x)
u_x = torch.autograd.grad(u.sum(), x[:, :1])[0]
