# code: BS203
# variable: loss
# file: _frozen_features.py
# cause: @torch.no_grad()
# fix: no_grad
import torch
from _frozen_features import Features
from torch import nn

model = nn.Sequential(Features(6, 12))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
target = torch.randn(5, 12)
loss = nn.functional.smooth_l1_loss(model(torch.randn(5, 6)), target)
loss.backward()
