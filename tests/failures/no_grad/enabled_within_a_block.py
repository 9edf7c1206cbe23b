# code: BS203
# variable: loss
# cause: return model(x)
# fix: Compute model(x) with gradients enabled
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


def silent(x):
    torch.set_grad_enabled(False)
    out = encode(x)
    torch.set_grad_enabled(True)
    return out


with torch.no_grad():
    with torch.enable_grad():
        loss = silent(x).sum()

(-loss).backward()
