# code: BS202
# variable: states
# cause: states[t] = states[t - 1] * gate
# fix: states = torch.stack(
import torch
from torch import nn


def run(start, gate, steps=5):
    states = torch.zeros(steps, *start.shape)
    states[0] = start
    for t in range(1, steps):
        states[t] = states[t - 1] * gate
    return states[-1]


torch.manual_seed(0)
first, gate = nn.Linear(3, 4), nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([*first.parameters(), gate], lr=0.1)
for _ in range(2):
    final = run(first(torch.randn(2, 3)), gate)
    loss = final.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
