# code: BS201
# variable: mem.old
# cause: mem.old.append(d.log_prob(a))
# fix: mem.old.append(d.log_prob(a).detach())
import torch
from torch import nn

torch.manual_seed(0)

pi = nn.Linear(3, 2)
opt = torch.optim.SGD(pi.parameters(), lr=0.1)


class Memory:
    def __init__(self):
        self.old = []
        self.s = []
        self.a = []

    def reset(self):
        self.old, self.s, self.a = [], [], []


mem = Memory()
for ep in range(2):
    for t in range(5):
        s = torch.randn(3)
        d = torch.distributions.Categorical(logits=pi(s))
        a = d.sample()
        mem.old.append(d.log_prob(a))
        mem.s.append(s)
        mem.a.append(a)
    old = torch.stack(mem.old)
    for k in range(3):
        d = torch.distributions.Categorical(logits=pi(torch.stack(mem.s)))
        ratio = (d.log_prob(torch.stack(mem.a)) - old).exp()
        loss = -ratio.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    mem.reset()
