# code: BS213
# variable: model[0].weight.grad
# cause: model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
# fix: Call model[0].weight.requires_grad_() before computing anything from it
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
x = torch.randn(5, 4)
model[0].weight.requires_grad_(False)
model(x).sum().backward()
model[0].weight.grad.norm()
