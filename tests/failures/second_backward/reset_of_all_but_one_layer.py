# code: BS201
# variable: net.blocks.0.1
# cause: self.trace = 0.9 * self.trace + x
# fix: trace.detach()
import torch
from torch import nn


class Trace(nn.Module):
    def __init__(self):
        super().__init__()
        self.trace = None

    def forward(self, x):
        if self.trace is None:
            self.trace = torch.zeros_like(x)
        self.trace = 0.9 * self.trace + x
        return torch.sigmoid(4 * self.trace)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 8), Trace())
        self.blocks = nn.Sequential(
            nn.Sequential(nn.Linear(8, 8), Trace()),
            nn.Sequential(nn.Linear(8, 8), Trace()),
        )

    def forward(self, x):
        for part in (self.first, self.blocks):
            for layer in ([*part.children()] + [self.blocks[1][1]]):
                if isinstance(layer, Trace):
                    layer.trace = None
        return sum(self.blocks(self.first(x)) for _ in range(3))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
