# code: BS202
# variable: self.critic_optimizer
# cause: self.critic_optimizer.step()
# fix: actor_loss
import torch
from torch import nn


class Agent:
    def __init__(self, states=4, actions=2, width=16):
        self.actor = nn.Sequential(nn.Linear(states, width), nn.Tanh(), nn.Linear(width, actions), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(states + actions, width), nn.Tanh(), nn.Linear(width, 1))
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def q(self, state, action):
        return self.critic(torch.cat([state, action], dim=1))

    def update(self, state, action, reward):
        critic_loss = (self.q(state, action) - reward).pow(2).mean()
        actor_loss = -self.q(state, self.actor(state)).mean()

        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()

        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()


agent = Agent()
agent.update(torch.randn(6, 4), torch.rand(6, 2), torch.randn(6, 1))
