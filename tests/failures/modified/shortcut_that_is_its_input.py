# code: BS202
# variable: out
# cause: out += self.second(torch.tanh(self.first(x)))
# fix: out = out + self.second(torch.tanh(self.first(x)))
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        out = x
        out += self.second(torch.tanh(self.first(x)))
        return out


net = nn.Sequential(nn.Linear(3, 4), Block(4), Block(4), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(2, 5, 3):
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
