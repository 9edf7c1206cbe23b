# code: BS203
# variable: net
# cause: p.requires_grad = False
# fix: requires_grad
import torch
from torch import nn


def build(classes, pretrained=True):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, classes))
    if pretrained:
        for p in model.parameters():
            p.requires_grad = False
    return model


net = build(classes=4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = nn.functional.cross_entropy(net(torch.randn(3, 8)), torch.tensor([0, 3, 1]))
loss.backward()
