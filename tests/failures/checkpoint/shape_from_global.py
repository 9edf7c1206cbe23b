# code: BS210
# variable: block
# cause: x = x[:, : settings["length"]]
# fix: settings
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

settings = {"length": 4}
layer = nn.Linear(8, 8)


def block(x):
    x = x[:, : settings["length"]]
    return torch.tanh(layer(x))


losses = []
for length in (4, 6):
    settings["length"] = length
    losses.append(checkpoint(block, torch.randn(2, 6, 8, requires_grad=True), use_reentrant=False).mean())
sum(losses).backward()
