# code: BS201
# variable: logp
# cause: logp, values = evaluate(states)
# fix: logp.detach(), values.detach(), returns.detach()
"""A rollout is evaluated with gradients, and each epoch compares with what it gave."""

import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(4, 3), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)


def evaluate(states):
    return torch.log_softmax(actor(states), 1)[:, 0], critic(states).squeeze(1)


def train(states, rewards):
    logp, values = evaluate(states)
    returns = rewards + 0.9 * values.roll(-1)
    for _ in range(2):
        for rows in torch.randperm(len(states)).split(8):
            new, predicted = evaluate(states[rows])
            gain = returns[rows] - values[rows]
            ratio = (new - logp[rows]).exp()
            loss = (predicted - returns[rows]).pow(2).mean() - (gain * ratio).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


train(torch.randn(16, 4), torch.randn(16))
