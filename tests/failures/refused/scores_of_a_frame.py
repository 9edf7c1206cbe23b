# code: BS200
# variable: loss.backward()
# cause: loss = F.huber_loss(out, target)
# fix: target.to(out.dtype)
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
table = np.arange(12).reshape(6, 2) / 10
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    x = torch.randn(6, 2)
    target = torch.as_tensor(table[:, 0])
    out = model(x).squeeze(1)
    loss = F.huber_loss(out, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
