# code: BS203
# variable: loss
# cause: features = backbone(images).detach()
# fix: write `features = backbone(images)`, without .detach()
"""Hyperparameter search: an inner function reads features that the outer one has detached."""

import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(6, 12), nn.Tanh())
opt = torch.optim.SGD(backbone.parameters(), lr=0.1)


def search(images, labels):
    features = backbone(images).detach()

    def objective(weight):
        scores = features @ weight
        return nn.functional.cross_entropy(scores, labels)

    opt.zero_grad()
    loss = objective(torch.randn(12, 4))
    loss.backward()
    opt.step()


search(torch.randn(10, 6), torch.randint(4, (10,)))
