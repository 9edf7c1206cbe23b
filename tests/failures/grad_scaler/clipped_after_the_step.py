# code: BS224
# variable: scaler.unscale_(optimizer)
# cause: scaler.unscale_(optimizer)
# fix: before the step
import torch
from torch import nn

model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")


def clip(max_norm):
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)


for x in torch.randn(3, 4, 8):
    optimizer.zero_grad()
    scaler.scale(model(x).pow(2).mean()).backward()
    scaler.step(optimizer)
    clip(1.0)
    scaler.update()
