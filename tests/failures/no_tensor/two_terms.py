# code: BS222
# variable: parts
# cause: parts = (model(x).sum(), model(y.T[:, :3]).mean())
# fix: such as sum(parts).backward() for all of them
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
parts = (model(x).sum(), model(y.T[:, :3]).mean())
parts.backward()
