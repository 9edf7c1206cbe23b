# code: BS222
# variable: part
# cause: return 0.0
# fix: write `if torch.is_tensor(part): part.backward()`
import torch
from torch import nn

net = nn.Linear(3, 1)


def masked(x, mask):
    if not mask.any():
        return 0.0
    return net(x[mask]).abs().mean()


x = torch.randn(4, 3)
parts = [masked(x, x[:, 0] > limit) for limit in (-100.0, 100.0)]
for part in parts:
    part.backward()
