# code: BS219
# variable: h
# cause: t.requires_grad_(False)
# fix: Detach h before line 18
import torch
from torch import nn


def freeze(t):
    t.requires_grad_(False)


torch.manual_seed(0)
encoder, head = nn.Linear(4, 8), nn.Linear(8, 1)
opt = torch.optim.SGD(head.parameters(), lr=0.1)
x = torch.randn(5, 4)
h = torch.relu(encoder(x))
freeze(h)
loss = head(h).square().mean()
loss.backward()
opt.step()
