# code: BS203
# variable: rewards
# cause: loss = -torch.tensor([log_prob * reward for log_prob, reward in zip(log_probs, rewards)]).sum()
# fix: torch.stack
import torch
from torch import nn

policy = nn.Sequential(nn.Linear(4, 2), nn.LogSoftmax(dim=-1))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)


def episode(length):
    log_probs, rewards = [], []
    for _ in range(length):
        output = policy(torch.randn(4))
        action = torch.distributions.Categorical(logits=output).sample()
        log_probs.append(output[action])
        rewards.append(float(action))
    return log_probs, rewards


log_probs, rewards = episode(5)
loss = -torch.tensor([log_prob * reward for log_prob, reward in zip(log_probs, rewards)]).sum()
optimizer.zero_grad()
loss.backward()
