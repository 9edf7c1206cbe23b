# code: BS224
# variable: optimizer
# cause: model.zero_grad()
# fix: before backward()
import torch
from torch import nn

model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for x in torch.randn(3, 4, 8):
    scaler.scale(model(x).pow(2).mean()).backward()
    model.zero_grad()
    scaler.step(optimizer)
    scaler.update()
