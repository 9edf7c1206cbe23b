# code: BS224
# variable: scaler.step()
# cause: loss.backward()
# fix: scaler.scale(loss).backward()
import torch
from torch import nn

model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for step in range(3):
    x, y = torch.randn(4, 8), torch.randint(3, (4,))
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
