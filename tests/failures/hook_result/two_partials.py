# code: BS225
# variable: hook
# cause: h.sum().backward()
# fix: keep grad.norm()
# unsure: two hooks may have changed the shape
import functools

import torch
from torch import nn

layer = nn.Linear(3, 2)
x = torch.ones(4, 3, requires_grad=True)
h = layer(x)


def first(grad):
    return grad * x.mean()


def other(grad):
    return grad[:1]


h.register_hook(functools.partial(first))
h.register_hook(functools.partial(other))
h.sum().backward()
