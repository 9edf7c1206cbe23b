# code: BS200
# variable: net(rows)
# cause: with torch.autograd.graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t / 2):
# fix: t.mul(2)
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
rows = torch.randn(5, 4)
with torch.autograd.graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t / 2):
    loss = net(rows).pow(2).mean()
loss.backward()
