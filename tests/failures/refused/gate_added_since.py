# code: BS200
# variable: opt
# cause: opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
# fix: without net.gate, load the state, and then give it net.gate
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, gated=False):
        super().__init__()
        self.reduce = nn.Linear(6, 5)
        self.gate = nn.Linear(6, 3) if gated else None
        self.expand = nn.Linear(5, 3)

    def forward(self, x):
        y = self.expand(self.reduce(x).relu())
        return y if self.gate is None else y * self.gate(x).sigmoid()


def train(net, opt):
    loss = net(torch.randn(4, 6)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()


def saved_last_week():
    net = Block()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    train(net, optimizer)
    return net.state_dict(), optimizer.state_dict()


weights, state = saved_last_week()
net = Block(gated=True)
net.load_state_dict(weights, strict=False)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
opt.load_state_dict(state)
train(net, opt)
