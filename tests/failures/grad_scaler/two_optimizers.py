# code: BS224
# variable: scaler.step
# line: 14
# fix: then call scaler.update()
import torch

model = torch.nn.Linear(3, 1)
x = torch.ones(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
other = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    scaler.scale(model(x).sum()).backward()
    scaler.step(other)
    scaler.step(optimizer)
    break
scaler.scale(model(x).sum()).backward()
scaler.step(other)
