# code: BS201
# variable: self.log_probs
# cause: self.log_probs.append(d.log_prob(a))
# fix: empty it after each step
import torch
from torch import nn
class Agent:
    def __init__(self):
        self.net = nn.Linear(4, 2)
        self.opt = torch.optim.Adam(self.net.parameters())
        self.log_probs, self.rewards = [], []
    def act(self, s):
        d = torch.distributions.Categorical(logits=self.net(s))
        a = d.sample()
        self.log_probs.append(d.log_prob(a))
        return a
    def finish(self):
        g = torch.tensor(self.rewards).flip(0).cumsum(0).flip(0)
        g = g if len(g) == len(self.log_probs) else torch.cat([torch.zeros(len(self.log_probs) - len(g)), g])
        loss = -(torch.stack(self.log_probs) * g).sum()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.rewards = []
agent = Agent()
for episode in range(2):
    for t in range(3):
        agent.act(torch.randn(4)); agent.rewards.append(1.0)
    agent.finish()
