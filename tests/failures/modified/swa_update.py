# code: BS202
# variable: model.weight
# cause: p.lerp_(s, 0.5)
# fix: below
import torch
from torch import nn

model = nn.Linear(3, 3)
slow = [p.detach().clone() for p in model.parameters()]


@torch.no_grad()
def lookahead(parameters, slow):
    for p, s in zip(parameters, slow, strict=True):
        p.lerp_(s, 0.5)


x = torch.randn(4, 3, requires_grad=True)
for k in range(3):
    out = model(model(x))
    loss = out.pow(2).sum()
    if k == 2:
        lookahead(model.parameters(), slow)
    loss.backward()
