# code: BS200
# variable: the group of net.stem is empty
# cause: thaw(optimizer, net)
# fix: put `net.stem.requires_grad_(True)` above line
import io

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(6, 5), nn.ReLU())
        self.head = nn.Linear(5, 2)
        for p in self.stem.parameters():
            p.requires_grad = False

    def forward(self, x):
        return self.head(self.stem(x))


def trained(module):
    return [p for p in module.parameters() if p.requires_grad]


def thaw(optimizer, net):
    optimizer.add_param_group({"params": trained(net.stem), "lr": 1e-4})


def fit(net, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(4, 6)).square().mean().backward()
        optimizer.step()


first = Net()
sgd = torch.optim.SGD(trained(first), lr=0.1, momentum=0.9)
fit(first, sgd, 2)
for p in first.stem.parameters():
    p.requires_grad = True
thaw(sgd, first)
fit(first, sgd, 2)
file = io.BytesIO()
torch.save([first.state_dict(), sgd.state_dict()], file)
file.seek(0)

net = Net()
optimizer = torch.optim.SGD(trained(net), lr=0.1, momentum=0.9)
thaw(optimizer, net)
weights, state = torch.load(file)
net.load_state_dict(weights)
optimizer.load_state_dict(state)
fit(net, optimizer, 2)
