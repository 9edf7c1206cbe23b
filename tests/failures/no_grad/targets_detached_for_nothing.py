# code: BS203
# variable: loss
# cause: logits = model(x).detach()
# fix: logits = model(x)
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))

targets = F.one_hot(labels.argsort().argsort() % 3, 3).float().detach()
logits = model(x).detach()
loss = F.mse_loss(logits, targets)
loss.backward()
