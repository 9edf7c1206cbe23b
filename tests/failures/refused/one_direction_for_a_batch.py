# code: BS200
# variable: y.backward(gradient=way)
# cause: way = torch.ones(2)
# fix: write `way = torch.ones_like(y)`
import torch
from torch import nn

x = torch.randn(5, 3, requires_grad=True)
y = nn.Linear(3, 2)(x)
way = torch.ones(2)
y.backward(gradient=way)
