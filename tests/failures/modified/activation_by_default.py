# code: BS202
# variable: y | net.act
# cause: return y * self.act(y)
# fix: nn.ReLU()
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, width, act=nn.ReLU(True)):
        super().__init__()
        self.linear, self.act = nn.Linear(width, width), act

    def forward(self, x):
        y = self.linear(x).exp()
        return y * self.act(y)


net = Gate(4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
net(torch.randn(3, 4)).mean().backward()
optimizer.step()
