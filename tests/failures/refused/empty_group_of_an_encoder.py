# code: BS200
# variable: the group of net.encoder is empty
# cause: optimizer.add_param_group({"params": trained(net.encoder), "lr": 1e-4})
# fix: put `net.encoder.requires_grad_(True)` above line
import io

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 5), nn.ReLU())
        self.head = nn.Linear(5, 2)
        for p in self.encoder.parameters():
            p.requires_grad = False

    def forward(self, x):
        return self.head(self.encoder(x))


def trained(module):
    return [p for p in module.parameters() if p.requires_grad]


def fit(net, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(4, 6)).square().mean().backward()
        optimizer.step()


def build(net):
    return torch.optim.SGD(trained(net), lr=0.1, momentum=0.9)


def resume(file):
    weights, state = torch.load(file)
    net = Net()
    optimizer = build(net)
    optimizer.add_param_group({"params": trained(net.encoder), "lr": 1e-4})
    net.load_state_dict(weights)
    optimizer.load_state_dict(state)
    return net, optimizer


first = Net()
groups = [{"params": first.head.parameters()}, {"params": first.encoder.requires_grad_(True).parameters(), "lr": 1e-4}]
sgd = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
fit(first, sgd, 2)
file = io.BytesIO()
torch.save([first.state_dict(), sgd.state_dict()], file)
file.seek(0)
fit(*resume(file), 2)
