# code: BS204
# variable: fast
# cause: grads = torch.autograd.grad(query, tuple(base.parameters()))
# unsure: which statement made the copy is read from the text
# fix: list(fast.parameters())
import copy

import torch
from torch import nn


def tuned(base, x, y):
    fast = copy.deepcopy(base)
    inner = torch.optim.SGD(fast.parameters(), lr=0.05)
    for _ in range(3):
        inner.zero_grad()
        (fast(x) - y).square().mean().backward()
        inner.step()
    return fast


torch.manual_seed(0)
base = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.Adam(base.parameters(), lr=0.01)
for _ in range(3):
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    fast = tuned(base, x, y)
    query = (fast(x) - y).square().mean()
    grads = torch.autograd.grad(query, tuple(base.parameters()))
    for p, g in zip(base.parameters(), grads):
        p.grad = g
    opt.step()
