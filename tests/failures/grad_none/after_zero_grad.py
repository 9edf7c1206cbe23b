# code: BS213
# variable: self.model.weight
# cause: self.optimizer.zero_grad()
# fix: zero_grad
import torch
from torch import nn


class Loop:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.log = []

    def step(self, x):
        loss = self.model(x).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.record()

    def record(self):
        self.log.append([p.grad.norm() for p in self.model.parameters()])


Loop(nn.Linear(4, 2)).step(torch.randn(3, 4))
