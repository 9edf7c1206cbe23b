# code: BS219
# variable: layer.weight
# cause: layer.weight.requires_grad = not frozen
# fix: for p in layer.parameters(recurse=False): p.requires_grad = not frozen
import torch
from torch import nn
from torch.nn.utils import weight_norm


def of_size(width, normed):
    layer = nn.Linear(width, width)
    return weight_norm(layer) if normed else layer


def freeze(part, frozen=True):
    for layer in part.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.requires_grad = not frozen


body = nn.Sequential(of_size(4, False), nn.Tanh(), of_size(4, True), nn.Tanh())
head = nn.Linear(4, 2)
freeze(body)
optimizer = torch.optim.SGD([p for p in (*body.parameters(), *head.parameters()) if p.requires_grad], lr=0.1)
for _ in range(3):
    loss = nn.functional.cross_entropy(head(body(torch.randn(8, 4))), torch.randint(0, 2, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
