# code: BS200
# variable: loss.backward()
# cause: with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy(), lambda a: a):
# fix: lambda a: torch.from_numpy(a)
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
rows = torch.randn(5, 4)
with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy(), lambda a: a):
    loss = net(rows).pow(2).mean()
loss.backward()
