# code: BS201
# variable: features
# cause: value = critic(features)
# fix: on line 16, write `extra = bonus(features.detach())`
import torch
from torch import nn

body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
critic, bonus, actor = nn.Linear(8, 1), nn.Linear(8, 1), nn.Linear(8, 2)
critic_optimizer = torch.optim.SGD([*critic.parameters(), *bonus.parameters()], lr=0.1)
actor_optimizer = torch.optim.SGD([*body.parameters(), *actor.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(3, 4)
    features = body(x)
    value = critic(features)
    extra = bonus(features)
    critic_loss = (value + extra).pow(2).mean()
    actor_loss = actor(features).logsumexp(1).mean()
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()
