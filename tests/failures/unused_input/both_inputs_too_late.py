# code: BS204
# variable: x and t
# cause: w.requires_grad_(True)
# fix: Put `x.requires_grad_(); t.requires_grad_()` above line
import torch
from torch import nn


def gradients(u, *wrt):
    for w in wrt:
        w.requires_grad_(True)
    return torch.autograd.grad(u.sum(), wrt, create_graph=True)


class Wave:
    def __init__(self, c=1.0):
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.c = c

    def residual(self, x, t):
        z = torch.cat([x, t], dim=1)
        u = self.net(z)
        u_x, u_t = gradients(u, x, t)
        (u_xx,) = gradients(u_x, x)
        (u_tt,) = gradients(u_t, t)
        return u_tt - self.c ** 2 * u_xx

    def fit(self, steps):
        for k in range(steps):
            loss = self.residual(torch.rand(64, 1), torch.rand(64, 1)).pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()


print(Wave().fit(5))
