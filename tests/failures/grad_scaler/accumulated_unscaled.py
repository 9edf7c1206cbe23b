# code: BS224
# variable: scaler.unscale_(optimizer)
# cause: scaler.unscale_(optimizer)
# fix: under the condition
import torch
from torch import nn

model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
accumulate = 4
for i in range(8):
    x, y = torch.randn(4, 8), torch.randint(3, (4,))
    loss = nn.functional.cross_entropy(model(x), y) / accumulate
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if (i + 1) % accumulate == 0:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
