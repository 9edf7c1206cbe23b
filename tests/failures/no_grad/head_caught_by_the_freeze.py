# code: BS203
# variable: net
# cause: weight.requires_grad = False
# fix: `net.last.requires_grad_(True)`. Or freeze above line
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, classes=100):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.last = nn.Linear(8, classes)

    def forward(self, x):
        x = self.norm(self.first(x)).relu()
        return self.last(x.mean(dim=(2, 3)))


def freeze(net):
    net.eval()
    for weight in net.parameters():
        weight.requires_grad = False


def finetuner(size, frozen=True):
    net = Net()
    net.last = nn.Sequential(nn.Linear(net.last.in_features, 16), nn.ReLU(), nn.Linear(16, size))
    if frozen:
        freeze(net)
    return net


def train(steps=2):
    net = finetuner(4)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    for _ in range(steps):
        one, same, other = (net(torch.randn(2, 3, 8, 8)) for _ in range(3))
        loss = F.triplet_margin_loss(one, same, other)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
train()
