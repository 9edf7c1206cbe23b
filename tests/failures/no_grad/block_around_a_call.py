# code: BS203
# variable: loss
# cause: with torch.set_grad_enabled(False):
# fix: torch.set_grad_enabled(False)
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
with torch.set_grad_enabled(False):
    loss = losses["score"](x)
(-loss).backward()
