# code: BS200
# variable: loss.mean().backward()
# cause: loss = -(logp * gain) + F.huber_loss(value, returns)
# fix: F.huber_loss(value, returns.to(value.dtype))
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def discounted(rewards, factor=0.9):
    out, running = [], 0.0
    for each in reversed(rewards):
        running = each + factor * running
        out.insert(0, running)
    out = np.array(out)
    return torch.from_numpy(out - out.mean())


torch.manual_seed(0)
pi, critic = nn.Linear(3, 2), nn.Linear(3, 1)
optimizer = torch.optim.Adam([*pi.parameters(), *critic.parameters()])
for _ in range(2):
    states = torch.randn(5, 3)
    returns = discounted([1.0, 0.0, 2.0, 0.5, 1.0])
    logp, value = F.log_softmax(pi(states), 1)[:, 0], critic(states).squeeze(1)
    gain = returns - value.detach()
    loss = -(logp * gain) + F.huber_loss(value, returns)
    optimizer.zero_grad()
    loss.mean().backward()
    optimizer.step()
