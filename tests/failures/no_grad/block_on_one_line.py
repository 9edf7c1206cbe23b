# code: BS203
# variable: loss
# cause: with torch.no_grad(): next(steps)
# fix: Compute the loss outside the torch.no_grad()
import torch
from torch import nn
import torch.nn.functional as F
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))

def trainer(model):
    while True:
        loss = model(x).mean()
        loss.backward()
        yield

steps = trainer(model)
next(steps)
with torch.no_grad(): next(steps)
