# code: BS201
# variable: loss
# cause: loss += F.binary_cross_entropy_with_logits(output[:, task], target[:, task])
# line: 27
# fix: Put `loss = 0` above line
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
ascent = torch.optim.SGD(net.parameters(), lr=0.05, maximize=True)
descent = torch.optim.SGD(net.parameters(), lr=0.1)

for step in range(3):
    x, target = torch.randn(8, 6), torch.rand(8, 3).round()
    loss = 0
    output = net(x)
    for task in range(3):
        loss += F.binary_cross_entropy_with_logits(output[:, task], target[:, task])
    net.zero_grad()
    loss.backward()
    ascent.step()

    output = net(x)
    for task in range(3):
        loss += F.binary_cross_entropy_with_logits(output[:, task], target[:, task])
    net.zero_grad()
    loss.backward()
    descent.step()
