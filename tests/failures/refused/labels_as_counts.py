# code: BS200
# variable: Found dtype Long but expected Float
# cause: loss = sum(criterion(each, goal) for each, goal in zip(net(x), counts))
# fix: .to(torch.float32)
import torch
from torch import nn

net, criterion = nn.Linear(4, 3), nn.HuberLoss()
for _ in range(2):
    x, counts = torch.randn(5, 4), torch.randint(0, 3, (5, 3))
    loss = sum(criterion(each, goal) for each, goal in zip(net(x), counts))
    loss.backward()
