"""AdamWScheduleFree: weights differ between training and evaluation."""

import torch
from _digest import digest
from schedulefree import AdamWScheduleFree
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 1))
optimizer = AdamWScheduleFree(model.parameters(), lr=1e-2, warmup_steps=5)
x = torch.randn(256, 10)
y = x[:, :1] * x[:, 1:2]
for epoch in range(6):
    model.train()
    optimizer.train()
    for bx, by in zip(x.split(32), y.split(32), strict=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(bx), by).backward()
        optimizer.step()
    model.eval()
    optimizer.eval()
    with torch.no_grad():
        print(epoch, nn.functional.mse_loss(model(x), y).item())
print(digest(model))
