# code: BS202
# variable: p | probabilities
# file: _metrics.py
# cause: probabilities.clamp_(1e-6, 1 - 1e-6)
# fix: clamp(
import torch
from _metrics import brier, log_loss
from torch import nn

model = nn.Sequential(nn.Linear(6, 1), nn.Sigmoid())
x, y = torch.randn(12, 6), torch.randint(0, 2, (12, 1)).float()
p = model(x)
loss = brier(p, y)
report = {"loss": loss.item(), "nll": log_loss(p, y)}
loss.backward()
