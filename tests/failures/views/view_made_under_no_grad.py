# code: BS209
# variable: last
# cause: last.mul_(scale)
# fix: no_grad
import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2))
scale = nn.Parameter(torch.ones(1))
state = {"h": torch.zeros(4, 2)}
state["h"] = model(torch.randn(4, 3))
with torch.no_grad():
    last = state["h"][-1]
last.mul_(scale)
last.sum().backward()
