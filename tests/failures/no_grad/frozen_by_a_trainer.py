# code: BS203
# variable: loss
# cause: self.model.requires_grad_(False)
# fix: x.requires_grad_()
import torch


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(3, 1)
        self.model.requires_grad_(False)

    def step(self, x):
        loss = self.model(x).mean()
        loss.backward()


Trainer().step(torch.randn(4, 3))
