# code: BS219
# variable: net.encoder.code
# cause: return copy.deepcopy(net)
# fix: net.encoder.code = net.encoder.code.detach()
import copy

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 4)

    def forward(self, x):
        self.code = torch.tanh(self.inner(x))
        return self.code


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        z = self.encoder(x)
        return self.head(z), z


def snapshot(net):
    return copy.deepcopy(net)


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
best, kept = float("inf"), None
for epoch in range(4):
    x = torch.randn(16, 6)
    prediction, z = net(x)
    loss = (prediction - x.sum(1, keepdim=True)).square().mean() + 0.01 * z.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() < best:
        best, kept = loss.item(), snapshot(net)
print(best)
