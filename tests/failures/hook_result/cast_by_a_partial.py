# code: BS225
# variable: net.bias
# cause: return grad.to(kind)
# fix: on line 17, write `return grad`
from functools import partial

import torch
from torch import nn


def divided(grad, by):
    return grad / by


def as_kind(kind, grad):
    # mixed precision
    return grad.to(kind)


net = nn.Linear(4, 2)
halve, cast = partial(divided, by=2), partial(as_kind, torch.float64)
net.weight.register_hook(halve)
net.bias.register_hook(cast)
net(torch.randn(3, 4)).sum().backward()
