# code: BS222
# variable: loss
# cause: def error(how):
# fix: Return the loss on every path of error()
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)


def error(how):
    if how:
        return model(x).sum()


loss = error(False)
loss.backward()
