# code: BS224
# variable: scaler.update
# cause: scaler.update()
# fix: like scaler.step()
import torch

model = torch.nn.Linear(3, 1)
x = torch.ones(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for i in range(4):
    scaler.scale(model(x).sum()).backward()
    if i % 2:
        scaler.step(optimizer)
    scaler.update()
