# code: BS201
# variable: edge
# cause: edge = income - critic(states).squeeze(1)
# fix: edge = edge.detach()
import torch
from torch import nn
actor, critic = nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
both = torch.optim.RMSprop([*actor.parameters(), *critic.parameters()], lr=1e-3)
states, moves, income = torch.randn(20, 4), torch.randint(0, 2, (20,)), torch.randn(20)
edge = income - critic(states).squeeze(1)
for epoch in range(4):
    chance = torch.log_softmax(actor(states), 1).gather(1, moves[:, None]).squeeze(1)
    policy_loss = -(chance * edge).mean()
    both.zero_grad()
    policy_loss.backward()
    value_loss = nn.functional.smooth_l1_loss(critic(states).squeeze(1), income)
    value_loss.backward()
    both.step()
