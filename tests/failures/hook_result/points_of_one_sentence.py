# code: BS225
# variable: HookPoint
# cause: return hook(gradients[0], point=self)
# fix: `return (hook(gradients[0], point=self),)`
"""Hook points in a network: a function looks at the gradient that comes to one. The batch is one sentence."""

import torch
from torch import nn


class HookPoint(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def add_hook(self, hook):
        def full(module, _, gradients):
            return hook(gradients[0], point=self)

        self.register_full_backward_hook(full)

    def forward(self, x):
        return x


def look(gradient, point):
    print(point.name, gradient.norm())
    return gradient


model = nn.Sequential(nn.Embedding(10, 4), HookPoint("after the embedding"), nn.Linear(4, 2))
model[1].add_hook(look)
model(torch.tensor([[1, 2, 3]])).sum().backward()
