# code: BS200
# variable: Found dtype Double but expected Float
# cause: error = F.huber_loss(value, goal.data, delta=0.5)
# fix: error = F.huber_loss(value, goal.to(value.dtype).data, delta=0.5)
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
readings = np.linspace(0, 1, 60).reshape(10, 6)
scale = torch.from_numpy(np.array([0.5, 2.0]))

for _ in range(3):
    x = torch.from_numpy(readings).float()
    goal = scale * x[:, :2].cumsum(0)
    value = net(x)
    error = F.huber_loss(value, goal.data, delta=0.5)
    optimizer.zero_grad()
    error.backward()
    optimizer.step()
