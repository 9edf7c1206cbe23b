# code: BS224
# variable: scaler.step(optimizer)
# cause: scaler.step(optimizer)
# fix: scaler.update()
import torch
from torch import nn

model = nn.Linear(8, 3)
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cpu")


def train(batches):
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)


train([(torch.randn(4, 8), torch.randint(3, (4,))) for _ in range(3)])
