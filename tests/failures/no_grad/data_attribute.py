# code: BS203
# variable: output
# cause: error = output.data - target
# fix: .data
import torch
from torch import nn


def weighted_mse(output, target, weight):
    error = output.data - target
    return (weight * error * error).mean()


net = nn.Sequential(nn.Linear(3, 10), nn.Sigmoid(), nn.Linear(10, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(5, 3)
    loss = weighted_mse(net(x), x.mean(1, keepdim=True), weight=2.0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
