# code: BS203
# variable: loss
# cause: self.enabled = torch.is_grad_enabled()
# fix: Make a new Evaluation for each `with`
import torch
from torch import nn


class Evaluation:
    def __enter__(self):
        self.enabled = torch.is_grad_enabled()
        torch.set_grad_enabled(False)

    def __exit__(self, *raised):
        torch.set_grad_enabled(self.enabled)


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.evaluation = Evaluation()

    def accuracy(self, x, y):
        with self.evaluation:
            return (self.model(x).argmax(1) == y).float().mean().item()

    def report(self, x, y):
        with self.evaluation:
            spread = self.model(x).std().item()
            return self.accuracy(x, y), spread

    def fit(self, epochs):
        for _ in range(epochs):
            x, y = torch.randn(9, 5), torch.randint(0, 3, (9,))
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print(self.report(x, y))


Trainer(nn.Linear(5, 3)).fit(2)
