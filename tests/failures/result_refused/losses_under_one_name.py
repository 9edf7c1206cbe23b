# code: BS219
# variable: curve
# cause: curve = np.array(curve)
# fix: append(loss.detach())
import numpy as np
import torch
from torch import nn

net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
curve = []
for _ in range(4):
    x = torch.randn(5, 3)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    curve.append(loss)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

curve = np.array(curve)
print(curve.min())
