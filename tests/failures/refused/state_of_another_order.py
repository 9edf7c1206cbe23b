# code: BS200
# variable: optimizer
# cause: optimizer = torch.optim.Adam([*net.encoder.parameters(), *net.head.parameters()], lr=1e-3)
# fix: net.head and net.encoder, in this order
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 5)
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        return self.head(self.encoder(x).tanh())


def step(net, optimizer):
    optimizer.zero_grad()
    net(torch.randn(3, 6)).square().mean().backward()
    optimizer.step()


def checkpoint():
    net = Net()
    groups = [{"params": net.head.parameters(), "lr": 1e-2}, {"params": net.encoder.parameters()}]
    adam = torch.optim.Adam([p for group in groups for p in group["params"]], lr=1e-3)
    step(net, adam)
    return {"net": net.state_dict(), "adam": adam.state_dict()}


def resume(saved):
    net = Net()
    net.load_state_dict(saved["net"])
    optimizer = torch.optim.Adam([*net.encoder.parameters(), *net.head.parameters()], lr=1e-3)
    restore(optimizer, saved)
    for _ in range(3):
        step(net, optimizer)


def restore(opt, saved):
    opt.load_state_dict(saved["adam"])


resume(checkpoint())
