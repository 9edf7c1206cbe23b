# code: BS203
# variable: loss
# cause: loss = F.mse_loss(logits.detach(), F.one_hot(labels, 3).float().detach())
# fix: loss = F.mse_loss(logits, F.one_hot(labels, 3).float().detach())
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))

logits = model(x)
loss = F.mse_loss(logits.detach(), F.one_hot(labels, 3).float().detach())
loss.backward()
