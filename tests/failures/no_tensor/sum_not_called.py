# code: BS222
# variable: loss
# cause: loss.backward()
# fix: Add the parentheses where loss is
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
loss = model(x).sum
loss.backward()
