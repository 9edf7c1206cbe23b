# code: BS213
# variable: model.0.weight.grad
# cause: p.grad.detach_()
# fix: if p.grad is not None: p.grad.detach_()
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
x = torch.randn(5, 4)

model[0].requires_grad_(False)
model(x).sum().backward()
for p in model.parameters():
    p.grad.detach_()
    p.grad.zero_()
