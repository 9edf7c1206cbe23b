# code: BS203
# variable: loss
# cause: loss = (logits > 0).float().mean()
# fix: loss = torch.sigmoid(logits).mean()
# or: predicted = logits.argmax(dim=1)\nloss = (predicted.float() - labels).pow(2).mean()
# or: _, predicted = logits.max(dim=1)\nloss = (predicted != labels).float().mean()
# or: loss = F.cross_entropy(logits.detach(), labels)
# or: loss = F.cross_entropy(logits.data, labels)
# or: loss = logits.long().sum()
# or: loss = torch.tensor(F.cross_entropy(logits, labels).item())
# or: loss = torch.from_numpy(logits.detach().numpy()).mean()
# or: loss = torch.tensor([float(F.cross_entropy(logits, labels))]).mean()
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))
logits = model(x)
loss = (logits > 0).float().mean()
loss.backward()
