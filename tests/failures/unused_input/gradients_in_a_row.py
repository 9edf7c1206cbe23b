# code: BS204
# variable: policy.value.weight
# cause: first = torch.autograd.grad(loss, weights, retain_graph=True)
# fix: materialize_grads=True
# or: first = torch.autograd.grad(loss, weights)
"""The gradient of a policy, as one vector with the places of all parameters."""

import torch
from torch import nn

torch.manual_seed(0)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.act, self.value = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(8, 1)

    def forward(self, x):
        h = torch.tanh(self.trunk(x))
        return self.act(h).log_softmax(1), self.value(h)


policy = Policy()
weights = list(policy.parameters())
chosen, values = policy(torch.randn(6, 4))
loss = -chosen[:, 0].mean()
first = torch.autograd.grad(loss, weights, retain_graph=True)
row = torch.cat([g.flatten() for g in first])
with torch.no_grad():
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(weights) - 0.1 * row, weights)
