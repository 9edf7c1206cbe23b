# code: BS208
# variable: mask
# cause: where = torch.from_numpy(self.seen)
# fix: write `torch.from_numpy(self.seen).clone()`
import numpy
import torch
from torch import nn


class Windows:
    def __init__(self):
        self.draw, self.seen = numpy.random.RandomState(0), numpy.zeros((3, 10), dtype=bool)

    def next(self):
        signal = self.draw.rand(3, 10)
        self.seen[:] = signal > 0.5
        where = torch.from_numpy(self.seen)
        return torch.from_numpy(signal).float(), where, torch.ones(int(self.seen.sum()), 4)


torch.manual_seed(0)
windows, marks, read = Windows(), nn.Linear(4, 1), nn.Linear(10, 2)
optimizer = torch.optim.SGD([*marks.parameters(), *read.parameters()], lr=0.1)
now = windows.next()
for _ in range(3):
    signal, where, features = now
    x = signal.clone()
    x[where] = marks(features).squeeze(1)
    loss = read(x).square().mean()
    now = windows.next()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
