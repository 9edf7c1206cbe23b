# code: BS225
# variable: Point
# cause: return edit(tensors)
# fix: lambda *given: (call(*given),)
"""Points at which an activation or a gradient can be edited, by one function."""

from functools import partial

import torch
from torch import nn


class Point(nn.Module):
    def add(self, edit, backward=False):
        def call(module, _, tensors):
            tensors = tensors[0] if isinstance(tensors, tuple) else tensors
            return edit(tensors)

        if backward:
            self.register_full_backward_hook(call)
        else:
            self.register_forward_hook(call)

    def forward(self, x):
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 6), Point(), nn.Tanh(), nn.Linear(6, 2))

    def add(self, k, edit, backward=False):
        self.layers[k].add(edit, backward)

    def forward(self, x):
        return self.layers(x)


def scale(tensor, factor):
    return tensor * factor


model = Model()
model.add(1, partial(scale, factor=2.0))
model.add(1, partial(scale, factor=0.5), backward=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(3, 1, 4):
    optimizer.zero_grad()
    model(x).square().sum().backward()
    optimizer.step()
