# code: BS222
# variable: closure
# cause: def evaluate(self, optimizer):
# fix: return loss
import torch
from torch import nn


class Fit:
    def __init__(self, model, x, y):
        self.model, self.x, self.y = model, x, y
        self.lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=5)
        self.history = []

    def evaluate(self, optimizer):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(self.x), self.y)
        loss.backward()
        self.history.append(loss.item())

    def run(self, n):
        for _ in range(n):
            self.lbfgs.step(lambda: self.evaluate(self.lbfgs))


x = torch.rand(20, 2)
Fit(nn.Linear(2, 1), x, x.sum(1, keepdim=True)).run(3)
