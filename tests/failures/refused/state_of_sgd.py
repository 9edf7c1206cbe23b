# code: BS200
# variable: optimizer
# cause: optimizer.load_state_dict(latest["optimizer"])
# fix: `optimizer = torch.optim.SGD(model.parameters(), lr=0.01)`
"""A training is resumed with Adam, after a first part with SGD."""

import torch
from torch import nn


def train(model, optimizer):
    for _ in range(2):
        loss = model(torch.randn(4, 3)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def first():
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    train(model, optimizer)
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def resume(latest):
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    model.load_state_dict(latest["model"])
    optimizer.load_state_dict(latest["optimizer"])
    train(model, optimizer)


resume(first())
