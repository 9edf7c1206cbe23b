# code: BS222
# variable: h
# cause: h.backward()
# fix: and call backward() on it
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
h = nn.LSTM(3, 2)(x)
h.backward()
