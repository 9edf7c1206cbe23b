# code: BS204
# variable: x
# cause: x = x.detach().requires_grad_()
# fix: Move line 13
import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.rand(10, 2, requires_grad=True)
t = torch.rand(10, 2, requires_grad=True)

u = net(x)
x = x.detach().requires_grad_()
u_x = torch.autograd.grad(u.sum(), x)[0]
