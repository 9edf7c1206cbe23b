# code: BS201
# variable: codes
# cause: codes = torch.tanh(self.proj(torch.randn(8, 3)))
# fix: inside the loop
"""A stream of batches encodes once, before it yields for ever; the losses are kept for a plot."""

import torch
from torch import nn
class Stream:
    def __init__(self, proj):
        self.proj = proj
    def __iter__(self):
        codes = torch.tanh(self.proj(torch.randn(8, 3)))
        while True:
            yield codes + torch.randn(8, 4), torch.randn(8, 1)
class Trainer:
    def __init__(self):
        self.proj, self.net = nn.Linear(3, 4), nn.Linear(4, 1)
        self.history = []
        self.opt = torch.optim.SGD([*self.proj.parameters(), *self.net.parameters()], lr=0.1)
    def step(self, x, y):
        loss = (self.net(x) - y).square().mean()
        self.history.append(loss)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
trainer = Trainer()
stream = iter(Stream(trainer.proj))
for _, (x, y) in zip(range(4), stream):
    trainer.step(x, y)
