# code: BS203
# variable: points_t
# cause: points_x, points_t = sample(32)
# fix: points_t.requires_grad_() below line
import torch
from torch import nn

def derivative(u, wrt):
    return torch.autograd.grad(u, wrt, grad_outputs=torch.ones_like(u), create_graph=True)[0]

class Residual:
    def __init__(self, net):
        self.net = net
    def __call__(self, x, t):
        u = self.net(torch.cat([x, t], 1))
        return derivative(u, wrt=t) - derivative(derivative(u, wrt=x), wrt=x)

def sample(n):
    x = torch.rand(n, 1, requires_grad=True)
    t = torch.rand(n, 1)
    return x, t

net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
residual = Residual(net)
opt = torch.optim.Adam(net.parameters())
for epoch in range(3):
    points_x, points_t = sample(32)
    loss = residual(points_x, points_t).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
