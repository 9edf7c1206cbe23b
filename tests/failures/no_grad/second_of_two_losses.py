# code: BS203
# variable: second
# cause: second = F.cross_entropy(model(x).detach(), labels)
# fix: second = F.cross_entropy(model(x), labels)
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))

first = F.cross_entropy(model(x), labels)
second = F.cross_entropy(model(x).detach(), labels)
torch.autograd.backward([first, second])
