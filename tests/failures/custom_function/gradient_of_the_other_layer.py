# code: BS208
# variable: model.0.weight
# cause: p.grad = gradient
# fix: by name
import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1))
gradients = [torch.zeros_like(p) for p in model.parameters()]
for p, gradient in zip(model.parameters(), reversed(gradients)):
    p.grad = gradient
