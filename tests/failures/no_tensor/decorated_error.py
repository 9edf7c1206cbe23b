# code: BS222
# variable: loss
# cause: return model(x).sum().item()
# fix: return model(x).sum()
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)


@torch.no_grad()
def error():
    return model(x).sum().item()


loss = error()
loss.backward()
