# code: BS203
# variable: outer
# cause: tuner = Tuner(net, second=False)
# fix: tuner = Tuner(net, second=True)
from functools import partial

import torch
from torch import nn


class Tuner:
    """Learns a step size for each weight, through one step of descent."""

    def __init__(self, net, rate=0.1, second=False):
        self.net = net
        self.second = second
        self.rates = [torch.full_like(w, rate) for w in net.parameters()]
        self.derive = partial(torch.autograd.grad, create_graph=self.second)

    def sharpness(self, x, y):
        inner = (self.net(x) - y).square().mean()
        slopes = self.derive(inner, list(self.net.parameters()))
        return sum((slope * rate).sum() for slope, rate in zip(slopes, self.rates))


net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
tuner = Tuner(net, second=False)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(2):
    outer = tuner.sharpness(torch.randn(5, 3), torch.randn(5, 1))
    optimizer.zero_grad()
    outer.backward()
    optimizer.step()
