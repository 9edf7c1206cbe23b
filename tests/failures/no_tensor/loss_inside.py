# code: BS222
# variable: loss
# cause: loss = {"loss": model(x).sum(), "extra": model(x).sum()}
# fix: loss['loss'].backward()
# or: loss = [model(row).sum() for row in x]
# or: loss = nn.LSTM(3, 2)(x)
# or: loss = nn.MSELoss()
# or: loss = model(x).sum
# or: loss = (model(x).sum(), model(-x).mean())
# or: a, b = model(x).sum(), model(x).mean()\nloss = (a, a + b, b)
import torch
from torch import nn

model = nn.Linear(3, 1)
x = torch.randn(8, 3)
loss = {"loss": model(x).sum(), "extra": model(x).sum()}
loss.backward()
