# code: BS224
# variable: scaler.step
# cause: scaler.step(optimizer)
# fix: scaler.scale(loss).backward()
# unsure: no text shows the call before
import torch

model = torch.nn.Linear(3, 1)
x = torch.ones(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
scaler.scale(model(x).sum()).backward()
getattr(scaler, "step(optimizer)"[:-11])(optimizer)
scaler.step(optimizer)
