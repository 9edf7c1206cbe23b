# code: BS204
# variable: u
# cause: torch.autograd.grad(u.sum(), half)
# fix: Take the gradient of x. Or
import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.rand(10, 2, requires_grad=True)
t = torch.rand(10, 2, requires_grad=True)
half = x / 2
u = net(x)
torch.autograd.grad(u.sum(), half)
