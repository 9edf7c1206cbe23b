# code: BS203
# variable: loss
# cause: loss = F.mse_loss(model(x).detach(), model(-x).detach() + 1)
# fix: loss = F.mse_loss(model(x), model(-x) + 1)
# or: first, second = model(x).detach(), model(-x).detach()\nloss = (first * second).sum()
# or: loss = model(x).detach().sum() * model(x).detach().mean()
# or: logits, size = model(x), model.weight.norm()\nloss = logits.detach().sum() * size.item()
# or: parts = [model(x).detach(), model(-x).data]\nloss = torch.stack(parts).sum()
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))
loss = F.mse_loss(model(x).detach(), model(-x).detach() + 1)
loss.backward()
