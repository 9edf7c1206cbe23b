# code: BS200
# variable: scale
# cause: self.norm.scale = self.norm.scale_full
# fix: self.norm.scale = self.norm.scale_full.clone()
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale_full = nn.Parameter(torch.ones(5))

    def forward(self, x):
        return self.scale * x / x.norm()


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.last = Norm(), nn.Linear(5, 1)

    def forward(self, x):
        if self.training:
            self.norm.scale = self.norm.scale_full * torch.rand(5)
        else:
            self.norm.scale = self.norm.scale_full
        return self.last(self.norm(x)).sum()


net = Noisy()
for epoch in range(2):
    net.train()
    net(torch.randn(3, 5)).backward()
    net.eval()
    with torch.no_grad():
        print(net(torch.randn(3, 5)))
