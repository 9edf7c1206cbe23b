# code: BS223
# variable: net.blocks
# cause: self.blocks = [Residual(8), Residual(8)]
# fix: nn.ModuleList
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.steps = [nn.Linear(width, width), nn.Tanh()]

    def forward(self, x):
        out = x
        for step in self.steps:
            out = step(out)
        return x + out


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = [Residual(8), Residual(8)]

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
