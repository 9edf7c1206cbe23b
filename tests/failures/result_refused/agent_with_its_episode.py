# code: BS219
# variable: agent.log_probs
# cause: best_return, best = sum(rewards), copy.deepcopy(agent)
# fix: agent.last_value = agent.last_value.detach()
import copy
import torch
from torch import nn
from torch.distributions import Categorical


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
        self.pi, self.v = nn.Linear(32, 2), nn.Linear(32, 1)
        self.log_probs = []
        self.last_value = None

    def act(self, s):
        h = self.body(s)
        dist = Categorical(logits=self.pi(h))
        a = dist.sample()
        self.log_probs.append(dist.log_prob(a))
        self.last_value = self.v(h)
        return a.item()


torch.manual_seed(0)
agent = Agent()
opt = torch.optim.Adam(agent.parameters(), lr=3e-3)
best, best_return = None, -1e9
for episode in range(4):
    agent.log_probs = []
    s, rewards = torch.randn(4), []
    for _ in range(10):
        a = agent.act(s)
        s = s * 0.9 + 0.1 * torch.randn(4) + (0.1 if a else -0.1)
        rewards.append(-s.abs().sum().item())
    ret = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    loss = -(torch.stack(agent.log_probs) * (ret - ret.mean())).mean() + (agent.last_value - ret[-1]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if sum(rewards) > best_return:
        best_return, best = sum(rewards), copy.deepcopy(agent)
print(best_return)
