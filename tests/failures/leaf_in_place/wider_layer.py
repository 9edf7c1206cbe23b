# code: BS205
# variable: wide.weight
# cause: wide.weight[: old.out_features] = old.weight
# fix: with torch.no_grad():
import torch
from torch import nn


def widen(old, extra):
    wide = nn.Linear(old.in_features, old.out_features + extra)
    wide.weight[: old.out_features] = old.weight
    wide.bias[: old.out_features] = old.bias
    return wide


net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
for classes in (2, 4):
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(3):
        loss = nn.functional.cross_entropy(net(torch.randn(32, 5)), torch.randint(0, classes, (32,)))
        opt.zero_grad()
        loss.backward()
        opt.step()
    if classes == 2:
        net[2] = widen(net[2], 2)
