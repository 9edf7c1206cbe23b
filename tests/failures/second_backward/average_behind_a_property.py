# code: BS201
# variable: meter.sum
# cause: self.sum = self.sum + value
# fix: detach
import torch
from torch import nn


class Meter:
    def __init__(self):
        self.sum, self.steps = 0.0, 0

    @property
    def average(self):
        return self.sum / self.steps

    def update(self, value):
        self.sum = self.sum + value
        self.steps += 1


torch.manual_seed(0)
net, meter = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), Meter()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def epoch(batches):
    for batch in batches:
        optimizer.zero_grad()
        meter.update(net(batch).square().mean())
        meter.average.backward()
        optimizer.step()


epoch(torch.randn(4, 6, 4))
