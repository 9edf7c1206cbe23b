# code: BS201
# variable: buffer.old
# cause: self.old = policy.log_prob(self.state, self.action)
# fix: buffer.old = buffer.old.detach() before line 32
import torch
from torch import nn

torch.manual_seed(0)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def log_prob(self, s, a):
        return torch.distributions.Normal(self.mean(s), self.log_std.exp()).log_prob(a).sum(-1)


class Buffer:
    def fill(self, policy, n):
        self.state = torch.randn(n, 3)
        self.action = (policy.mean(self.state) + policy.log_std.exp() * torch.randn(n, 1)).detach()
        self.reward = -(self.action.squeeze(1) - self.state[:, 0]).pow(2)
        self.old = policy.log_prob(self.state, self.action)


def improve(policy, optimizer, buffer, passes=3):
    advantage = buffer.reward - buffer.reward.mean()
    for _ in range(passes):
        for idx in torch.randperm(len(advantage)).split(64):
            new = policy.log_prob(buffer.state[idx], buffer.action[idx])
            ratio = (new - buffer.old[idx]).exp()
            loss = -torch.minimum(ratio * advantage[idx], ratio.clamp(0.8, 1.2) * advantage[idx]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


policy, buffer = Policy(), Buffer()
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
for it in range(10):
    buffer.fill(policy, 256)
    improve(policy, optimizer, buffer)
    print(it, buffer.reward.mean().item())
