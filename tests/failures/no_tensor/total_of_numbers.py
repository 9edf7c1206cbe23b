# code: BS222
# variable: total
# cause: total = total + error.item()
# fix: total = total + error
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
total = 0
for a, b in zip(x, y):
    error = (model(a) - b).pow(2)
    total = total + error.item()
total.backward()
