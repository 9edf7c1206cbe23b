# code: BS222
# variable: criterion
# cause: criterion.backward()
# fix: loss = criterion(...)
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
criterion = nn.MSELoss()
criterion.backward()
