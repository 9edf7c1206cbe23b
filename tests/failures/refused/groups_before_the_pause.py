# code: BS200
# variable: different number of parameter groups
# cause: self.sgd = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
# fix: (lr 0.01 and 0.1)
import io

import torch
from torch import nn


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def by_layer(model, lr):
    groups = [{"params": model[0].parameters(), "lr": lr / 10}, {"params": model[2].parameters()}]
    return torch.optim.SGD(groups, lr=lr, momentum=0.9)


def fit(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(6, 4)).square().mean().backward()
        optimizer.step()


class Session:
    def __init__(self, model, lr):
        self.model = model
        self.sgd = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    def resume(self, file):
        self.sgd.load_state_dict(torch.load(file))
        fit(self.model, self.sgd, 3)


model, file = build(), io.BytesIO()
optimizer = by_layer(model, 0.1)
fit(model, optimizer, 3)
torch.save(optimizer.state_dict(), file)
file.seek(0)
Session(build(), 0.1).resume(file)
