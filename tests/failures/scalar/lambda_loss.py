# code: BS212
# variable: loss
# cause: huber = lambda error, delta=1.0: torch.where(error.abs() < delta, 0.5 * error**2, delta * (error.abs() - 0.5 * delta))
# fix: mean
import torch
from torch import nn

huber = lambda error, delta=1.0: torch.where(error.abs() < delta, 0.5 * error**2, delta * (error.abs() - 0.5 * delta))
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
x, y = torch.randn(6, 3), torch.randn(6, 2)
loss = huber(net(x) - y)
loss.backward()
