# code: BS201
# variable: losses
# cause: return torch.autograd.grad(loss, weights)
# fix: write `return torch.autograd.grad(loss, weights, retain_graph=True)`
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
weights = tuple(net.parameters())


def slopes(loss):
    return torch.autograd.grad(loss, weights)


def conflict(losses):
    first, second = [slopes(loss) for loss in losses]
    return sum((a * b).sum() for a, b in zip(first, second))


out = net(torch.randn(5, 3))
print(conflict([out[:, 0].square().mean(), out[:, 1].abs().mean()]))
