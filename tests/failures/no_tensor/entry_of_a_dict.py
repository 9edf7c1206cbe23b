# code: BS222
# variable: losses["mse"]
# cause: losses["mse"] = (model(x) - y).pow(2).mean().item()
# fix: losses["mse"] = (model(x) - y).pow(2).mean()
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
losses = {}
losses["kl"] = 0.5
losses["mse"] = (model(x) - y).pow(2).mean().item()
losses["mse"].backward()
