# code: BS200
# variable: self.optimizer
# cause: self.optimizer.load_state_dict(state)
# fix: `self.optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)`
# varied: optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
# or: optimizer = torch.optim.RAdam(model.parameters(), lr=0.002)
# or: optimizer = torch.optim.Adamax(model.parameters(), lr=0.002)
"""A trainer with RMSprop resumes what was trained with AdamW: the first step fails."""

import torch
from torch import nn


def saved():
    model = nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    return model.state_dict(), optimizer.state_dict()


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)

    def resume(self, weights, state):
        self.model.load_state_dict(weights)
        self.optimizer.load_state_dict(state)

    def train(self):
        for _ in range(3):
            self.optimizer.zero_grad()
            self.model(torch.ones(2, 3)).square().sum().backward()
            self.optimizer.step()


trainer = Trainer(nn.Linear(3, 1))
trainer.resume(*saved())
trainer.train()
