# code: BS202
# variable: opt_c.step
# cause: opt_c.step()
# fix: If actor_loss should not train the parameters of opt_c
# varied: actor_loss = -(policy * advantage).mean()
# or: actor_loss = -(policy * advantage * critic(s)).mean()
import torch
from torch import nn

actor, critic = nn.Linear(4, 1), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
opt_a, opt_c = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
s, r = torch.randn(8, 4), torch.randn(8, 1)
policy = actor(s)
advantage = r - critic(s)
opt_c.zero_grad()
advantage.pow(2).mean().backward(retain_graph=True)
opt_c.step()
actor_loss = -(policy * advantage).mean()
actor_loss.backward()
