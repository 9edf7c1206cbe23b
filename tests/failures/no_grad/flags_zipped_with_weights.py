# code: BS203
# variable: loss
# cause: flags = zip(weights, (w.requires_grad for w in weights))
# fix: flags = list(zip(weights, (w.requires_grad for w in weights)))
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        self.value = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def policy_loss(self, state):
        weights = [*self.value.parameters()]
        flags = zip(weights, (w.requires_grad for w in weights))
        for w in weights:
            w.requires_grad = False
        loss = -self.value(torch.cat([state, self.actor(state)], 1)).mean()
        for w, was in flags:
            w.requires_grad = was
        return loss

    def value_loss(self, state, reward):
        action = self.actor(state).detach()
        return (self.value(torch.cat([state, action], 1)) - reward).square().mean()


agent = Agent()
of_actor = torch.optim.Adam(agent.actor.parameters())
of_value = torch.optim.Adam(agent.value.parameters())
for step in range(3):
    state, reward = torch.randn(16, 3), torch.randn(16, 1)
    of_actor.zero_grad()
    agent.policy_loss(state).backward()
    of_actor.step()
    loss = agent.value_loss(state, reward)
    of_value.zero_grad()
    loss.backward()
    of_value.step()
