# code: BS201
# variable: self.baseline | agent.baseline
# cause: self.baseline = self.momentum * self.baseline + (1 - self.momentum) * value.mean()
# fix: detach
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Reinforce:
    policy: nn.Module
    critic: nn.Module
    momentum: float = 0.9
    baseline: torch.Tensor = field(default_factory=lambda: torch.zeros(()))

    def loss(self, states, rewards):
        distribution = torch.distributions.Categorical(logits=self.policy(states))
        actions = distribution.sample()
        value = self.critic(states).squeeze(-1)
        self.baseline = self.momentum * self.baseline + (1 - self.momentum) * value.mean()
        advantage = rewards - self.baseline
        return -(distribution.log_prob(actions) * advantage).mean()


agent = Reinforce(nn.Linear(4, 2), nn.Linear(4, 1))
optimizer = torch.optim.Adam([*agent.policy.parameters(), *agent.critic.parameters()])
for episode in range(3):
    loss = agent.loss(torch.randn(6, 4), torch.rand(6))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
