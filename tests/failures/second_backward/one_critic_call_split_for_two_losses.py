# code: BS201
# variable: scores
# cause: scores = critic(torch.cat([observed, imagined]))
# fix: Compute both again for critic_loss
import torch
from torch import nn

policy = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
policy_optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)


def losses(observed, reward):
    imagined = policy(observed)
    scores = critic(torch.cat([observed, imagined]))
    known, wished = scores.split(len(observed))
    return -wished.mean(), nn.functional.mse_loss(known.squeeze(1), reward)


for step in range(5):
    observed = torch.randn(16, 4)
    reward = observed.sum(1)
    policy_loss, critic_loss = losses(observed, reward)
    policy_optimizer.zero_grad()
    policy_loss.backward()
    policy_optimizer.step()
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()
