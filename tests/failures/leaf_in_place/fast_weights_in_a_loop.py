# code: BS205
# variable: model.weight
# cause: w -= 0.1 * g
# fix: fast = [w - (0.1 * g) for w, g in zip(fast, slopes)]
import torch
from torch import nn
from torch.nn import functional as F

model = nn.Linear(4, 1)
outer = torch.optim.Adam(model.parameters(), lr=1e-3)


def adapt(x, y):
    fast = list(model.parameters())
    for _ in range(2):
        slopes = torch.autograd.grad(F.mse_loss(F.linear(x, *fast), y), fast, create_graph=True)
        for w, g in zip(fast, slopes):
            w -= 0.1 * g
    return fast


x, y = torch.randn(8, 4), torch.randn(8, 1)
F.mse_loss(F.linear(x, *adapt(x, y)), y).backward()
