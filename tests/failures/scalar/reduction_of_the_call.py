# code: BS212
# variable: loss
# cause: loss = F.cross_entropy(model(x), labels, reduction="none")
# fix: Let the loss function reduce, as
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(4, 3)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))
loss = F.cross_entropy(model(x), labels, reduction="none")
loss.backward()
