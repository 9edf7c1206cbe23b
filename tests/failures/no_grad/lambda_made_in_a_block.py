# code: BS203
# variable: loss
# line: 38
# fix: torch.no_grad()
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)


def encode(x):
    return model(x)


def score(x):
    return encode(x).sum()


losses = {"score": score}


def evaluate():
    with torch.no_grad():
        return encode(x)


evaluate()

with torch.no_grad():
    late = lambda x: head(x)
    late(x)


def run():
    with torch.no_grad():
        return late(x)


loss = run().sum()

(-loss).backward()
