# code: BS203
# variable: loss
# cause: @torch.no_grad()
# fix: Remove @torch.no_grad() from score
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)


def encode(x):
    return model(x)


@torch.no_grad()
def score(x):
    return encode(x).sum()


losses = {"score": score}


def evaluate():
    with torch.no_grad():
        return encode(x)


evaluate()
loss = losses["score"](x)
(-loss).backward()
