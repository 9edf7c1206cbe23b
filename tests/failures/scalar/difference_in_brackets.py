# code: BS212
# variable: model
# cause: (model(x) - 1).backward()
# fix: Call (model(x) - 1).mean().backward()
import torch
from torch import nn

model = nn.Linear(4, 3)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))
(model(x) - 1).backward()
