# code: BS203
# variable: points
# cause: a, b, c = points.tolist()
# fix: points
import math

import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 3), nn.Softplus())


def area(points):
    a, b, c = points.tolist()
    s = (a + b + c) / 2
    return torch.tensor(math.sqrt(abs(s * (s - a) * (s - b) * (s - c))))


optimizer = torch.optim.Adam(net.parameters())
loss = torch.stack([area(net(x)) for x in torch.randn(3, 2)]).mean()
optimizer.zero_grad()
loss.backward()
