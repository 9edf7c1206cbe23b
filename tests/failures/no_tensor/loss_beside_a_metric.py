# code: BS222
# variable: self.loss
# cause: self.loss, self.hits = nn.functional.mse_loss(out, y).item(), (out > 0).sum().item()
# fix: self.loss, self.hits = nn.functional.mse_loss(out, y), (out > 0).sum().item()
import torch
from torch import nn

class Fit:
    def __init__(self):
        self.net = nn.Linear(3, 1)
        self.loss, self.hits = None, 0

    def measure(self, x, y):
        out = self.net(x)
        self.loss, self.hits = nn.functional.mse_loss(out, y).item(), (out > 0).sum().item()

    def step(self, x, y):
        self.measure(x, y)
        self.loss.backward()

fit = Fit()
fit.step(torch.randn(4, 3), torch.randn(4, 1))
