# code: BS224
# variable: scaler.step
# cause: scaler.step(optimizer)
# fix: teacher.parameters()
# unsure: whether the loss or the optimizer has the wrong model is its author's to say
import torch

model = torch.nn.Linear(3, 1)
x = torch.ones(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
teacher = torch.nn.Linear(3, 1)
scaler.scale(teacher(x).sum()).backward()
scaler.step(optimizer)
