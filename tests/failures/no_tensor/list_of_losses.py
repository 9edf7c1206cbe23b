# code: BS222
# variable: losses
# cause: losses.backward()
# fix: such as sum(losses).backward() for all of them
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
losses = [model(a).sum() for a in x]
losses.backward()
