# code: BS204
# variable: loss
# cause: def forward(self, x):
# fix: Use self.spare in forward
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.spare, self.head = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x):
        return self.head(self.body(x))


def inner_step(model, x):
    loss = model(x).pow(2).mean()
    return torch.autograd.grad(loss, model.parameters())


inner_step(Net(), torch.randn(4, 3))
