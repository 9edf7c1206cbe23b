# code: BS224
# variable: scaler.update()
# cause: optimizer.step()
# fix: scaler.step(optimizer)
import torch
from torch import nn

model = nn.Linear(8, 3)
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cpu")
for x in torch.randn(3, 4, 8):
    optimizer.zero_grad()
    scaler.scale(model(x).pow(2).mean()).backward()
    optimizer.step()
    scaler.update()
