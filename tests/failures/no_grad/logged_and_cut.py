# code: BS203
# variable: loss
# cause: loss = head(h).argmax(0).float().sum()
# fix: loss = torch.softmax(head(h), dim=0).select(0, 1).sum()
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)

log = []
h = model(x)
log.append(h.detach())
loss = head(h).argmax(0).float().sum()
loss.backward()
