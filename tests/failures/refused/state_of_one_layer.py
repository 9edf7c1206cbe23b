# code: BS200
# variable: model[1]
# cause: trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
# fix: on line 30 without model[1]
"""A layer was added since the state was saved; the trainer is given its optimizer."""

import torch
from torch import nn


class Trainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer

    def resume(self, state):
        self.optimizer.load_state_dict(state)
        self.model.train()


def step(net, optimizer):
    net(torch.randn(2, 4)).sum().backward()
    optimizer.step()


old = nn.Linear(4, 4)
optimizer = torch.optim.SGD(old.parameters(), lr=0.1, momentum=0.9)
step(old, optimizer)
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
trainer.resume(optimizer.state_dict())
