# code: BS213
# variable: hyper.weight.grad
# cause: layer.weight = nn.Parameter(generated[:6].view(2, 3))
# fix: torch.func.functional_call
"""A hypernetwork whose weights a function puts into the layer."""

import torch
from torch import nn


def put(layer, generated):
    layer.weight = nn.Parameter(generated[:6].view(2, 3))
    layer.bias = nn.Parameter(generated[6:])


torch.manual_seed(0)
policy = nn.Linear(3, 2)
hyper = nn.Linear(5, 8)
optimizer = torch.optim.Adam(hyper.parameters())
task, states, actions = torch.randn(5), torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
for _ in range(3):
    put(policy, hyper(task))
    loss = nn.functional.cross_entropy(policy(states), actions)
    optimizer.zero_grad()
    loss.backward()
    print(hyper.weight.grad.norm())
    optimizer.step()
