# code: BS222
# variable: loss
# cause: loss = model(x).sum().backward()
# fix: backward() already ran there
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
loss = model(x).sum().backward()
loss.backward()
