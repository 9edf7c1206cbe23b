# code: BS224
# variable: scaler.unscale_
# cause: loss.backward()
# fix: scaler.scale(loss).backward()
import torch

model = torch.nn.Linear(3, 1)
x = torch.ones(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")


def backward(loss):
    loss.backward()


backward(model(x).sum())
scaler.unscale_(optimizer)
