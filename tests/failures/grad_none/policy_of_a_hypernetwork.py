# code: BS213
# variable: hyper.weight.grad
# cause: policy.weight.copy_(generated.view(2, 3))
# fix: remove lines 17 and 18
"""A hypernetwork: for each task it makes the weights of a policy."""

import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Linear(3, 2)
hyper = nn.Linear(5, 6)
optimizer = torch.optim.Adam(hyper.parameters())
task, states, actions = torch.randn(5), torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
for _ in range(3):
    generated = hyper(task)
    with torch.no_grad():
        policy.weight.copy_(generated.view(2, 3))
    loss = nn.functional.cross_entropy(policy(states), actions)
    optimizer.zero_grad()
    loss.backward()
    print(sum(p.grad.norm() for p in hyper.parameters()))
    optimizer.step()
