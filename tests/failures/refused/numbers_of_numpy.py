# code: BS200
# variable: self.first(x)
# cause: for x, y in zip(torch.from_numpy(data).split(4), torch.from_numpy(data.sum(1)).split(4)):
# fix: put `x, y = x.float(), y.float()`
import numpy
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.last(self.first(x).relu()).squeeze(1)


data = numpy.random.default_rng(0).normal(size=(12, 3))
net = Net()
for x, y in zip(torch.from_numpy(data).split(4), torch.from_numpy(data.sum(1)).split(4)):
    (net(x) - y).square().mean().backward()
