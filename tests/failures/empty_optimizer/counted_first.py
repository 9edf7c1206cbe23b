# code: BS223
# variable: params
# cause: params = model.parameters()
# fix: params = list(model.parameters())
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
params = model.parameters()
print(f"{sum(p.numel() for p in params):,} parameters")
optimizer = torch.optim.AdamW(params, lr=3e-4, weight_decay=0.01)
