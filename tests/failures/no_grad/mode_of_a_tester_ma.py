# code: BS203
# variable: self.quiet
# cause: with self.quiet():
# fix: Remove line 26
import contextlib

import torch
from torch import nn


def slope(u, x):
    return torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]


class Tester:
    def __init__(self, net, records=False):
        self.net = net
        self.quiet = contextlib.nullcontext if records else torch.no_grad

    def residual(self, x):
        x = x.requires_grad_()
        u = self.net(x)
        return (slope(u, x) + u).square().mean()

    def test(self, x):
        with self.quiet():
            return self.residual(x).item()


torch.manual_seed(0)
tester = Tester(nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)))
optimizer = torch.optim.Adam(tester.net.parameters(), lr=0.01)
for _ in range(2):
    loss = tester.residual(torch.rand(16, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(tester.test(torch.rand(16, 1)))
