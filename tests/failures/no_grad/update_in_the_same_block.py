# code: BS203
# variable: loss
# cause: with torch.no_grad():
# fix: `y = torch.randn(5, 3) @ w`, above line
import torch
from torch import nn

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
for it in range(3):
    with torch.no_grad():
        y = torch.randn(5, 3) @ w
        w -= 0.1
    loss = y.square().mean()
    loss.backward()
