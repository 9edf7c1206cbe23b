# code: BS201
# variable: loss
# cause: loss.backward()
# fix: each backward() needs a graph of its own
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)
exec("loss = head(model(x)).square().sum()")
for _ in range(2):
    loss.backward()
