# code: BS224
# variable: scaler.unscale_
# cause: scaler.unscale_(optimizer)
# fix: scaler.scale(loss).backward()
# unsure: no text shows the call before
import torch

model = torch.nn.Linear(3, 1)
x = torch.ones(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
scaler.scale(model(x).sum()).backward()
getattr(scaler, "unscale_(optimizer)"[:-11])(optimizer)
scaler.unscale_(optimizer)
