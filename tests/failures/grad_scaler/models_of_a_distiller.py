# code: BS224
# variable: self.optimizer
# cause: distiller = Distiller(large, small)
# fix: write `distiller = Distiller(small, large)`
import torch
from torch import nn


class Distiller:
    def __init__(self, small, large, rate=0.1):
        self.small, self.large = small, large
        self.optimizer = torch.optim.SGD(self.small.parameters(), lr=rate)
        self.scaler = torch.amp.GradScaler("cpu")

    def train(self, x):
        loss = (self.small(x) - self.large(x)).abs().mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()


large = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
for weight in large.parameters():
    weight.requires_grad = False
small = nn.Linear(4, 2)
distiller = Distiller(large, small)
distiller.train(torch.randn(10, 4))
