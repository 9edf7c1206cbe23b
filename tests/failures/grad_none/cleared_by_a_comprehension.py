# code: BS213
# variable: model.0.weight.grad
# cause: [p.grad.data.fill_(0) for p in model.parameters()]
# fix: if p.grad is not None
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
x = torch.randn(5, 4)
[p.grad.data.fill_(0) for p in model.parameters()]
model(x).sum().backward()
