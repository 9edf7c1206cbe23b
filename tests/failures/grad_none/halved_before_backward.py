# code: BS213
# variable: model.0.weight.grad
# cause: p.grad.mul_(0.5)
# fix: p.grad.mul_(0.5)
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
x = torch.randn(5, 4)
for p in model.parameters():
    p.grad.mul_(0.5)
model(x).sum().backward()
