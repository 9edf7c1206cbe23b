# code: BS201
# variable: moved
# cause: way = torch.autograd.grad(moved, rest, way)[0] * 0.5 + given
# fix: on line 17, write `way = torch.autograd.grad(moved, rest, way, retain_graph=True)[0] * 0.5 + given`
import torch
from torch import nn

torch.manual_seed(0)
pull = nn.Linear(4, 4)
rest = torch.randn(2, 4, requires_grad=True)
moved = torch.tanh(pull(rest))


def adjoint(given):
    way = given
    for _ in range(6):
        way = torch.autograd.grad(moved, rest, way)[0] * 0.5 + given
    return way


print(adjoint(torch.ones(2, 4)).norm())
