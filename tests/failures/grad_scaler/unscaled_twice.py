# code: BS224
# variable: scaler.unscale_
# line: 12
# fix: after the last backward() and before clipping
import torch

model = torch.nn.Linear(3, 1)
x = torch.ones(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
scaler.scale(model(x).sum()).backward()
scaler.unscale_(optimizer)
scaler.unscale_(optimizer)
