# code: BS202
# variable: self.critic.memory | critic.memory | agents[0].critic.memory | left.critic.memory
# cause: self.memory = torch.tanh(self.mix(torch.cat([seen, self.memory], dim=1)))
# fix: critic.memory = critic.memory.detach()
"""Two agents share a critic with a memory; each trains it in its turn, with retain_graph=True as the error advised."""

import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.mix, self.value = nn.Linear(3 + size, size), nn.Linear(size, 1)
        self.memory = torch.zeros(2, size)

    def forward(self, seen):
        self.memory = torch.tanh(self.mix(torch.cat([seen, self.memory], dim=1)))
        return self.value(self.memory)


class Agent:
    def __init__(self, critic):
        self.critic, self.policy = critic, nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD([*critic.parameters(), *self.policy.parameters()], lr=0.1)

    def learn(self, seen, reward):
        advantage = reward - self.critic(seen)
        loss = advantage.square().mean() - (self.policy(seen) * advantage.detach()).mean()
        self.optimizer.zero_grad()
        loss.backward(retain_graph=True)
        self.optimizer.step()


torch.manual_seed(0)
critic = Critic()
left, right = Agent(critic), Agent(critic)
for step in range(3):
    for agent in (left, right):
        agent.learn(torch.randn(2, 3), torch.randn(2, 1))
