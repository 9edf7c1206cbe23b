# code: BS219
# variable: first.online.hidden
# cause: self.target = copy.deepcopy(self.online)
# fix: first.online.hidden = {key: value.detach() for key, value in first.online.hidden.items()}
"""A network is hooked twice, and what the first hook keeps is read by a method that leaves it there."""

import copy

import torch
from torch import nn

torch.manual_seed(0)


class Wrapper(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net, self.head, self.hidden = net, nn.Linear(4, 2), {}
        net[0].register_forward_hook(self.keep)

    def keep(self, layer, given, result):
        self.hidden[given[0].device] = result.flatten(1)

    def inner(self, x):
        self.net(x)
        return self.hidden[x.device]

    def forward(self, x):
        return self.head(self.inner(x))


class Learner(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.online = Wrapper(net)
        self.target = copy.deepcopy(self.online)

    def forward(self, x):
        with torch.no_grad():
            goal = self.target(x)
        return (self.online(x) - goal - 1).pow(2).mean()


def fit(learner):
    optimizer = torch.optim.Adam(learner.parameters())
    loss = learner(torch.randn(8, 3))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
first = Learner(net)
fit(first)
second = Learner(net)
fit(second)
