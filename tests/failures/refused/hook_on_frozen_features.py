# code: BS200
# variable: features
# cause: features.register_hook(self.keep)
# fix: features.requires_grad
import torch
from torch import nn


class Saliency:
    """Keeps the gradient that arrives at the features."""

    def __init__(self, net):
        self.grad = None
        net.body.register_forward_hook(self.attach)

    def attach(self, module, args, features):
        features.register_hook(self.keep)

    def keep(self, grad):
        self.grad = grad


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.ReLU())
        self.top = nn.Linear(12, 2)

    def forward(self, x):
        return self.top(self.body(x))


net = Net()
saliency = Saliency(net)
for p in net.body.parameters():
    p.requires_grad = False
optimizer = torch.optim.SGD(net.top.parameters(), lr=0.1)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(torch.randn(4, 6)), torch.randint(0, 2, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
