# code: BS202
# variable: y
# cause: y += x
# fix: Write y = y + x
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.act = nn.Linear(4, 4), nn.ReLU()

    def forward(self, x):
        y = self.act(self.lin(x))
        y += x
        return y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


net = Net()


def fit(net):
    net(torch.randn(5, 4)).mean().backward()


fit(net)
