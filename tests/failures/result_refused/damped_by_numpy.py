# code: BS219
# variable: out
# cause: scaled = damped(out.numpy())
# fix: scaled = torch.log1p(out)
import torch
from numpy import log1p as damped
from torch import nn

model = nn.Linear(3, 2)
out = model(torch.ones(4, 3)).abs()
scaled = damped(out.numpy())
loss = torch.as_tensor(scaled).mean()
loss.backward()
