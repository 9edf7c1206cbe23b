# code: BS204
# variable: weight
# cause: (slope,) = torch.autograd.grad(loss, weight, create_graph=True)
# fix: slope = torch.autograd.grad(loss, params["first.weight"], create_graph=True)[0][k]
import torch
import torch.nn as nn
from torch.func import functional_call, stack_module_state, vmap


class Member(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(2, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.last(self.first(x).tanh())


def loss_of(params, buffers, x, y):
    return (functional_call(members[0], (params, buffers), x) - y).square().mean()


def penalties_of(losses, params):
    penalties = []
    for loss, weight in zip(losses, params["first.weight"]):
        (slope,) = torch.autograd.grad(loss, weight, create_graph=True)
        penalties.append(slope.square().sum())
    return torch.stack(penalties)


torch.manual_seed(0)
members = [Member() for _ in range(4)]
params, buffers = stack_module_state(members)
optimizer = torch.optim.Adam(params.values())
for step in range(2):
    x = torch.randn(4, 16, 2)
    losses = vmap(loss_of)(params, buffers, x, x.prod(dim=-1, keepdim=True))
    total = (losses + 0.1 * penalties_of(losses, params)).sum()
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
