# code: BS213
# variable: model[0].weight.grad
# cause: loss = (model(x).detach() * model(-x).detach() + x.sum().requires_grad_()).sum()
# fix: write `loss = (model(x) * model(-x) + x.sum().requires_grad_()).sum()`, without .detach()
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
x = torch.randn(5, 4)
loss = (model(x).detach() * model(-x).detach() + x.sum().requires_grad_()).sum()
loss.backward()
model[0].weight.grad.norm()
