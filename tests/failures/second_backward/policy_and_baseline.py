# code: BS201
# variable: old
# cause: old = torch.log_softmax(actor(states), 1)[:, 0]
# fix: old.detach(), baseline.detach()
"""The old log probabilities and the baseline are computed once, in two lines, and both keep their graphs."""

import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(4, 3), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
states, returns = torch.randn(16, 4), torch.randn(16)
old = torch.log_softmax(actor(states), 1)[:, 0]
baseline = critic(states).squeeze(1)
for _ in range(3):
    ratio = (torch.log_softmax(actor(states), 1)[:, 0] - old).exp()
    loss = (critic(states).squeeze(1) - returns).pow(2).mean() - (ratio * (returns - baseline)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
