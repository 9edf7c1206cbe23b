# code: BS200
# variable: cannot assign
# cause: setattr(layer, "weight", layer.weight + spread * torch.randn_like(layer.weight))
# fix: values['layers.0.weight'] = ...
import torch
from torch import nn


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 2)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


net, spread = Noisy(), nn.Parameter(torch.tensor(0.1))


def shake(part):
    for layer in part:
        setattr(layer, "weight", layer.weight + spread * torch.randn_like(layer.weight))


shake(net.layers)
net(torch.randn(4, 3)).sum().backward()
