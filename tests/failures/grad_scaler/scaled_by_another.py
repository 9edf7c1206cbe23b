# code: BS224
# variable: scaler.step
# cause: mine.scale(model(x).sum()).backward()
# fix: scaler.scale(...) there
import torch

model = torch.nn.Linear(3, 1)
x = torch.ones(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")


def loss_of(x):
    return torch.amp.GradScaler("cpu").scale(model(x).sum())


mine = torch.amp.GradScaler("cpu")
mine.scale(model(x).sum()).backward()
scaler.step(optimizer)
