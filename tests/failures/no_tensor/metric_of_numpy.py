# code: BS222
# variable: loss
# cause: loss = np.mean((prediction.detach().numpy() - y.numpy()) ** 2)
# fix: PyTorch operations
import numpy as np
import torch
from torch import nn

model = nn.Linear(4, 1)
x, y = torch.randn(8, 4), torch.randn(8, 1)
prediction = model(x)
loss = np.mean((prediction.detach().numpy() - y.numpy()) ** 2)
loss.backward()
