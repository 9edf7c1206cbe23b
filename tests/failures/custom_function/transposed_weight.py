# code: BS208
# variable: weight
# file: _ops.py
# cause: grad_weight = x.t().mm(grad_output)
# fix: transpose
import torch
from _ops import MyLinear
from torch import nn

layer = MyLinear(5, 3)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
loss = nn.functional.mse_loss(layer(torch.randn(4, 5)), torch.randn(4, 3))
optimizer.zero_grad()
loss.backward()
