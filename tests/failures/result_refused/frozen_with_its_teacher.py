# code: BS219
# variable: anchors
# cause: tensor.requires_grad_(False)
# fix: Detach anchors before line 23
import torch
from torch import nn


def no_gradients(things):
    for thing in things:
        tensors = list(thing.parameters()) if isinstance(thing, nn.Module) else [thing]
        for tensor in tensors:
            tensor.requires_grad_(False)


torch.manual_seed(0)
old, new = nn.Linear(6, 3), nn.Linear(6, 3)
optimizer = torch.optim.Adam(old.parameters(), lr=0.01)
data = torch.randn(32, 6)
old(data).square().mean().backward()
optimizer.step()
anchors = old(data).softmax(1)
no_gradients([old, anchors])
optimizer = torch.optim.Adam(new.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    distance = (new(data).softmax(1) - anchors).square().mean()
    distance.backward()
    optimizer.step()
