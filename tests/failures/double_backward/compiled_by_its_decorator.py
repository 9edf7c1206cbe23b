# code: BS215
# variable: potential
# cause: @torch.compile(backend="aot_eager")
# fix: Remove line 14
import torch
import torch._dynamo
from torch import nn


def squash(x):
    return torch.tanh(x)


@torch.compile(backend="aot_eager")
def potential(net, x):
    return squash(net(x)).sum()


@torch.compile(backend="eager")
def distance(force, target):
    return (force - target).square().mean()


net = nn.Linear(3, 5)
x = torch.randn(4, 3, requires_grad=True)
energy = potential(net, x)
(slope,) = torch.autograd.grad(energy, x, create_graph=True)
loss = distance(-slope, torch.randn(4, 3))
loss.backward()
