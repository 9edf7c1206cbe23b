# code: BS204
# variable: net
# cause: torch.autograd.grad(net(x).sum(), [x, s, t])
# fix: Compute net(x) from s and t too
import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.rand(10, 2, requires_grad=True)
t = torch.rand(10, 2, requires_grad=True)
s = torch.rand(1, requires_grad=True)
torch.autograd.grad(net(x).sum(), [x, s, t])
