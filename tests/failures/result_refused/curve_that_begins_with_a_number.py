# code: BS219
# variable: curve
# cause: smooth = np.convolve(curve, np.ones(2) / 2, mode="valid")
# fix: each.item() if torch.is_tensor(each) else each for each in curve
import math

import numpy as np
import torch
from torch import nn

model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
curve = [math.log(2)]
for _ in range(4):
    x = torch.randn(16, 5)
    loss = nn.functional.softplus(-model(x)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    curve.append(loss)
smooth = np.convolve(curve, np.ones(2) / 2, mode="valid")
print(smooth)
