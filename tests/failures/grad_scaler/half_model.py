# code: BS224
# variable: optimizer
# cause: model = nn.Linear(8, 3).half()
# fix: torch.autocast
import torch
from torch import nn

model = nn.Linear(8, 3).half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for x in torch.randn(3, 4, 8):
    optimizer.zero_grad()
    loss = model(x.half()).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
