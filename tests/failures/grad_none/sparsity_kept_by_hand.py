# code: BS213
# variable: net.fixed.pattern
# cause: self.pattern = nn.Parameter(pattern, requires_grad=False)
# fix: if p.grad is not None: p.sub_(0.1 * p.grad)
# or: self.pattern = nn.Parameter(pattern).requires_grad_(False)
import torch
from torch import nn


class Sparse(nn.Module):
    def __init__(self, pattern):
        super().__init__()
        self.pattern = nn.Parameter(pattern, requires_grad=False)
        self.weight = nn.Parameter(torch.randn_like(pattern))

    def forward(self, x):
        return x @ (self.weight * self.pattern)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fixed = Sparse((torch.rand(5, 4) > 0.4).float())
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.fixed(x).tanh())


torch.manual_seed(3)
net = Net()
x = torch.randn(20, 5)
for step in range(4):
    net.zero_grad()
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            p.sub_(0.1 * p.grad)
