# code: BS203
# variable: slopes.square().mean()
# cause: slope_of = functools.partial(torch.autograd.grad, create_graph=False, retain_graph=True)
# fix: slope_of = functools.partial(torch.autograd.grad, create_graph=True, retain_graph=True)
import functools

import torch
from torch import nn

slope_of = functools.partial(torch.autograd.grad, create_graph=False, retain_graph=True)


def roughness(field, points):
    points.requires_grad_()
    slopes = slope_of(field(points).sum(), points)[0]
    return torch.autograd.grad(slopes.square().mean(), points)[0].abs().mean()


field = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
print(roughness(field, torch.rand(10, 2)))
