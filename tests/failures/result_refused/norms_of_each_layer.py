# code: BS219
# variable: probe.model.log.norms["in"]
# cause: best = copy.deepcopy(probe)
# fix: self.norms[where] = h.norm(dim=1).detach()
import copy

import torch
from torch import nn


class Log:
    def __init__(self):
        self.norms = {}

    def put(self, where, h):
        self.norms[where] = h.norm(dim=1)


class Probed(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = Log()
        self.inner, self.outer = nn.Linear(3, 6), nn.Linear(6, 1)

    def forward(self, x):
        h = self.inner(x)
        self.log.put("in", h)
        y = self.outer(h.relu())
        self.log.put("out", y)
        return y


class Probe:
    def __init__(self, model):
        self.model, self.best = model, 1e9


torch.manual_seed(0)
probe = Probe(Probed())
optimizer = torch.optim.Adam(probe.model.parameters(), lr=1e-2)
for _ in range(3):
    x = torch.randn(8, 3)
    loss = (probe.model(x) - x.prod(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss < probe.best:
        probe.best = loss.item()
        best = copy.deepcopy(probe)
