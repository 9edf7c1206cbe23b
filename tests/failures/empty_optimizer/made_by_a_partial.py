# code: BS223
# variable: make
# cause: "sgd": functools.partial(torch.optim.SGD, model.parameters(), momentum=0.9),
# fix: "sgd": functools.partial(torch.optim.SGD, list(model.parameters()), momentum=0.9),
import functools

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
makers = {
    "sgd": functools.partial(torch.optim.SGD, model.parameters(), momentum=0.9),
}


def search(rates, make):
    """Try each rate for a few steps."""
    found = {}
    for rate in rates:
        optimizer = make(lr=rate)
        for _ in range(4):
            loss = model(torch.ones(1, 4)).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found[rate] = loss.item()
    return found


print(search([0.1, 0.01], makers["sgd"]))
