# code: BS200
# variable: cannot assign
# cause: [setattr(owner(model, path), path.split(".")[-1], value) for path, value in fast.items()]
# fix: values['body.0.weight'] = ...
import copy

import torch
from torch import nn


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))

    def forward(self, x):
        return self.body(x).squeeze(1)


def owner(model, path):
    return model.get_submodule(path.rpartition(".")[0])


def adapted(learner, x, y, rate):
    model = copy.deepcopy(learner)
    loss = (model(x) - y).square().mean()
    grads = torch.autograd.grad(loss, [*model.parameters()], create_graph=True)
    fast = {path: p - rate * g for (path, p), g in zip(model.named_parameters(), grads)}
    [setattr(owner(model, path), path.split(".")[-1], value) for path, value in fast.items()]
    return model


learner, rate = Regressor(), torch.tensor(0.1, requires_grad=True)
x, y = torch.randn(8, 2), torch.randn(8)
(adapted(learner, x, y, rate)(x) - y).square().mean().backward()
