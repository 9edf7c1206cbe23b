# code: BS213
# variable: model.weight | layer.weight
# cause: print(model.weight.grad.norm())
# fix: before
import torch
from torch import nn


def reinitialise(layer, scale):
    layer.weight = nn.Parameter(scale * torch.randn_like(layer.weight))


model = nn.Linear(3, 2)
loss = model(torch.randn(4, 3)).square().mean()
reinitialise(model, scale=0.1)
loss.backward()
print(model.weight.grad.norm())
