# code: BS202
# variable: d.weight
# cause: p.clamp_(-0.01, 0.01)
# fix: p.clamp_(-0.01, 0.01)
import torch
from torch import nn

g, d = nn.Linear(2, 2), nn.Linear(2, 1)
loss = -d(g(torch.randn(4, 2))).mean()
with torch.no_grad():
    for p in d.parameters():
        p.clamp_(-0.01, 0.01)
loss.backward()
