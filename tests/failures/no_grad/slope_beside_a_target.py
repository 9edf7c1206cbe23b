# code: BS203
# variable: loss
# cause: g = grad(u.sum(), x)[0]
# fix: write `g = grad(u.sum(), x, create_graph=True)[0]`
import torch
import torch.nn as nn
from torch.autograd import grad

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters())
target = nn.Linear(2, 1)
for step in range(3):
    x = torch.rand(32, 2, requires_grad=True)
    u = net(x)
    base = target(x).detach()
    g = grad(u.sum(), x)[0]
    loss = (g.norm(dim=1) - base.squeeze(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
