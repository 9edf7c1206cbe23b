"""First order MAML on sinusoids."""
import copy
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)


class SineNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(1, 40)
        self.l2 = nn.Linear(40, 40)
        self.l3 = nn.Linear(40, 1)

    def forward(self, x):
        return self.l3(torch.relu(self.l2(torch.relu(self.l1(x)))))


def sample_task():
    amp, ph = torch.empty(2).uniform_(0.5, 3.0)
    def draw(n=10):
        x = torch.empty(n, 1).uniform_(-5, 5)
        return x, amp * torch.sin(x + ph)
    return draw


def adapt(model, draw, lr=0.01, steps=1):
    learner = copy.deepcopy(model)
    opt = torch.optim.SGD(learner.parameters(), lr=lr)
    for _ in range(steps):
        x, y = draw()
        loss = F.mse_loss(learner(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return learner


meta = SineNet()
meta_opt = torch.optim.Adam(meta.parameters(), lr=2e-3)
start = [p.detach().clone() for p in meta.parameters()]
for it in range(100):
    meta_opt.zero_grad()
    total = 0.0
    for _ in range(4):
        draw = sample_task()
        learner = adapt(meta, draw)
        learner.zero_grad()
        xq, yq = draw()
        qloss = F.mse_loss(learner(xq), yq) / 4
        qloss.backward()
        total += qloss.item()
    meta_opt.step()
    if it % 20 == 19:
        print(f'meta iter {it + 1} query loss {total:.3f}')
print('meta weights moved', sum((p - q).abs().sum().item() for p, q in zip(meta.parameters(), start)))
