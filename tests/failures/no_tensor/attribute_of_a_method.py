# code: BS222
# variable: self.loss
# cause: self.loss, self.hits = out.pow(2).mean().item(), int((out > 0).sum())
# fix: self.hits = out.pow(2).mean()
# unsure: which method assigned the attribute is read from the text
import torch
from torch import nn


class Fit:
    def __init__(self):
        self.net, self.loss = nn.Linear(3, 1), None

    def measure(self, x):
        out = self.net(x)
        self.loss, self.hits = out.pow(2).mean().item(), int((out > 0).sum())

    def step(self, x):
        self.measure(x)
        self.loss.backward()


Fit().step(torch.ones(4, 3))
