# code: BS202
# variable: h
# cause: drop = lambda h: h.mul_((torch.rand_like(h) > 0.2).float())
# fix: h.mul
import torch
from torch import nn

drop = lambda h: h.mul_((torch.rand_like(h) > 0.2).float())
first, second = nn.Linear(6, 10), nn.Linear(10, 2)


def model(x):
    h = first(x).exp()
    return second(drop(h))


optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
loss = nn.functional.cross_entropy(model(torch.randn(4, 6)), torch.tensor([0, 1, 1, 0]))
optimizer.zero_grad()
loss.backward()
