# code: BS224
# variable: scaler.unscale_
# cause: scaler.step(optimizer)
# fix: Call scaler.update() once at the end of each step
import torch

model = torch.nn.Linear(3, 1)
x = torch.ones(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")


def step(loss):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)


for i in range(3):
    step(model(x).sum())
