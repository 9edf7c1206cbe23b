# code: BS202
# variable: g
# cause: g /= g.sum()
# fix: g = g / g.sum()
import functools
import torch
from torch import nn


def weighted(weight, logits, target):
    p = logits.sigmoid()
    return (weight * (p - target) ** 2).mean()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 12)
        self.gate = nn.Linear(6, 12)

    def forward(self, x):
        g = torch.exp(self.gate(x))
        return self.body(x), g

    def criterion(self, g):
        return functools.partial(weighted, g)


model = Model()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(5, 6), torch.rand(5, 12)
for _ in range(2):
    out, g = model(x)
    crit = model.criterion(g)
    loss = crit(out, y)
    g /= g.sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
