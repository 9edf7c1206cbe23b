# code: BS228
# variable: net
# cause: net = build("meta")
# fix: net.to_empty(device=
import torch
from torch import nn


def build(device):
    with torch.device(device):
        net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
        return net


def train():
    net = build("meta")
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(3):
        x, y = torch.randn(8, 6), torch.randint(2, (8,))
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train()
