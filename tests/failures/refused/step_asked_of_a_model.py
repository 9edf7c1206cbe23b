# code: BS200
# variable: self.model
# cause: self.model.step()
# fix: write `self.optimizer.step()`
import torch


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(3, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self, batches):
        for x in batches:
            loss = self.model(x).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.model.step()


Trainer().fit(torch.randn(4, 5, 3))
