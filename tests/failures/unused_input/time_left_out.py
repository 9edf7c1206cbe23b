# code: BS204
# variable: t
# cause: u = self.net(x)
# fix: t
import torch
from torch import nn


class Heat:
    def __init__(self, width=8):
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))

    def residual(self, x, t):
        u = self.net(x)
        u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
        u_t = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
        return u_t - 0.1 * u_xx


x, t = torch.rand(4, 1, requires_grad=True), torch.rand(4, 1, requires_grad=True)
Heat().residual(x, t).square().mean().backward()
