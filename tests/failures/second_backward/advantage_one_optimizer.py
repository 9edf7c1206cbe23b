# code: BS201
# variable: advantage
# cause: actor_loss = -(dist.log_prob(a) * advantage).mean()
# fix: advantage.detach()
import torch
from torch import nn
actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
opt = torch.optim.Adam([*actor.parameters(), *critic.parameters()])
for _ in range(2):
    s = torch.randn(10, 4)
    dist = torch.distributions.Categorical(logits=actor(s))
    a = dist.sample()
    advantage = torch.randn(10) - critic(s).squeeze(-1)
    actor_loss = -(dist.log_prob(a) * advantage).mean()
    critic_loss = advantage.pow(2).mean()
    opt.zero_grad()
    actor_loss.backward()
    critic_loss.backward()
    opt.step()
