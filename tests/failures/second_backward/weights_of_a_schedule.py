# code: BS201
# variable: before
# cause: before = losses
# fix: before = [
"""Dynamic weight averaging: the weight of each task follows how fast its loss fell, in a closure that remembers."""

import torch
from torch import nn


def weighting(temperature):
    before = None

    def weights(losses):
        nonlocal before
        if before is None:
            speed = torch.ones(len(losses))
        else:
            speed = torch.stack([now / last for now, last in zip(losses, before)])
        before = losses
        return len(losses) * torch.softmax(speed / temperature, 0)

    return weights


torch.manual_seed(0)
trunk, heads = nn.Sequential(nn.Linear(6, 8), nn.Tanh()), nn.ModuleList([nn.Linear(8, 1), nn.Linear(8, 1)])
optimizer = torch.optim.Adam([*trunk.parameters(), *heads.parameters()])
weigh = weighting(2.0)
for step in range(4):
    x = torch.randn(16, 6)
    features = trunk(x)
    losses = [(head(features) - x[:, k : k + 1]).square().mean() for k, head in enumerate(heads)]
    loss = (weigh(losses) * torch.stack(losses)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
