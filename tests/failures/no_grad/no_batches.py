# code: BS203
# variable: total
# cause: total = torch.tensor(0.0)
# fix: if total.requires_grad: total.backward()
import torch
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))

total = torch.tensor(0.0)
for batch in []:
    total = total + model(batch).sum()
total.backward()
