# code: BS204
# variable: model.widen.weight
# cause: outer = torch.autograd.grad(loss(model, x), weights, retain_graph=True)
# fix: create_graph=True, materialize_grads=True)`
"""A fixed point is differentiated through a step of training; one layer runs only where the widths are different."""

import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.inner = nn.Linear(before, after)
        self.widen = nn.Linear(before, after, bias=False)
        self.same = before == after

    def forward(self, x):
        if not self.same:
            return torch.tanh(self.inner(x)) + self.widen(x)
        return torch.tanh(self.inner(x)) + x


def loss(model, x):
    return model(x).pow(2).mean()


def fixed_point(model, weights, x, noise, step):
    outer = torch.autograd.grad(loss(model, x), weights, retain_graph=True)
    stepped = step(weights, noise)
    vs = [torch.zeros_like(weight) for weight in weights]
    for _ in range(2):
        vs = torch.autograd.grad(stepped, weights, grad_outputs=vs, retain_graph=True)
        vs = [v + g for v, g in zip(vs, outer)]
    return torch.autograd.grad(stepped, noise, grad_outputs=vs)


def step(weights, noise):
    slopes = torch.autograd.grad(loss(model, x + noise), weights, create_graph=True)
    return [weight - 0.1 * slope for weight, slope in zip(weights, slopes)]


model, x = Block(4, 4), torch.randn(8, 4)
fixed_point(model, list(model.parameters()), x, torch.zeros(4, requires_grad=True), step)
