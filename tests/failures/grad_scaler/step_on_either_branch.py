# code: BS224
# variable: scaler.step
# line: 14
# fix: scaler.update() at the end of each step
import torch

model = torch.nn.Linear(3, 1)
x = torch.ones(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for step in range(2):
    scaler.scale(model(x).sum()).backward()
    if step:
        scaler.step(optimizer)
    else:
        scaler.step(optimizer)
