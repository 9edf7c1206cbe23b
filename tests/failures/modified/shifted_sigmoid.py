# code: BS202
# variable: h
# cause: h += 1
# fix: Write h = h + 1
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)


def forward(x):
    h = torch.sigmoid(model(x))
    h += 1
    return h


forward(x).sum().backward()
