# code: BS205
# variable: self.offsets | model.offsets
# cause: self.offsets[domain] += x.mean(0)
# fix: clone()
import torch
from torch import nn


class DomainShift(nn.Module):
    def __init__(self, domains, width):
        super().__init__()
        self.offsets = nn.Parameter(torch.zeros(domains, width))

    def forward(self, x, domain):
        self.offsets[domain] += x.mean(0)
        return x - self.offsets[domain]


model = DomainShift(3, 4)
model(torch.randn(5, 4), domain=1).sum().backward()
