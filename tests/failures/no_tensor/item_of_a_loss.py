# code: BS222
# variable: loss
# cause: loss = (model(x) - y).pow(2).mean().item()
# fix: loss = (model(x) - y).pow(2).mean()
# or: mse = (model(x) - y).pow(2).mean()\nloss = float(mse)
# or: loss = sum([(model(a) - b).pow(2).item() for a, b in zip(x, y)]) / 8
# or: parts = []\nfor a, b in zip(x, y):\n    part = (model(a) - b).pow(2)\n    parts.append(part.item())\nloss = np.mean(parts)
# or: loss = (model(x) - y).pow(2).mean().detach().cpu().numpy()
import numpy as np
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
loss = (model(x) - y).pow(2).mean().item()
loss.backward()
