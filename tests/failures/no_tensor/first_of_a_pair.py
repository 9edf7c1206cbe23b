# code: BS222
# variable: loss
# cause: return value.item(), value
# fix: return value, value
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)


def error():
    value = (model(x) - y).pow(2).mean()
    return value.item(), value


loss, kept = error()
loss.backward()
