# code: BS222
# variable: loss
# cause: loss = None
# fix: Assign the loss tensor to loss before backward()
# unsure: whether there should have been a batch is its author's to say
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
loss = None
for a in []:
    loss = model(a).sum()
loss.backward()
