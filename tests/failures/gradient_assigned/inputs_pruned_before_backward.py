# code: BS208
# variable: net.first.weight
# cause: layer.weight.data = layer.weight.data[:, kept].clone()
# fix: on line 26, write `layer.weight = nn.Parameter(layer.weight.data[:, kept].clone())`
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = torch.arange(10)
        self.first, self.second = nn.Linear(10, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x[:, self.kept])))


class Pruner:
    def __init__(self, net):
        self.net = net

    def prune(self, many):
        layer = self.net.first
        kept = layer.weight.detach().abs().sum(0).argsort()[many:].sort().values
        layer.weight.data = layer.weight.data[:, kept].clone()
        self.net.kept = self.net.kept[kept]


torch.manual_seed(0)
net = Net()
pruner, optimizer = Pruner(net), torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = nn.functional.cross_entropy(net(torch.randn(8, 10)), torch.randint(0, 2, (8,)))
    if step == 1:
        pruner.prune(3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
