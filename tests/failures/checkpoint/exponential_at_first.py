# code: BS210
# variable: block
# cause: calls.append(1)
# fix: Change calls outside the checkpointed function
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)

from torch.utils.checkpoint import checkpoint

calls = []


def block(x):
    calls.append(1)
    x = model(x)
    if len(calls) == 1:
        x = x.exp()
    return x * x.cos()


loss = checkpoint(block, x, use_reentrant=False).sum()
loss.backward()
