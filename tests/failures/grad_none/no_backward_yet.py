# code: BS213
# variable: model[0].weight.grad
# cause: model[0].weight.grad.norm()
# fix: Read it after backward()
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
x = torch.randn(5, 4)
loss = model(x).sum()
model[0].weight.grad.norm()
