# code: BS222
# variable: parts
# cause: parts = (a, a + b, b)
# fix: Call parts[1].backward()
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
a, b = model(x).sum(), model(x).mean()
parts = (a, a + b, b)
parts.backward()
