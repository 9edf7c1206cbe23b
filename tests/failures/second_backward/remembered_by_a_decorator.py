# code: BS201
# variable: process.memory['_covariance']
# cause: self.memory[key] = function(self)
# fix: remove line 
import torch
from torch import nn


def remembered(function):
    key = "_" + function.__name__

    def read(self):
        if key not in self.memory:
            self.memory[key] = function(self)
        return self.memory[key]

    return read


class Process(nn.Module):
    def __init__(self):
        super().__init__()
        self.root, self.memory = nn.Parameter(torch.eye(4)), {}

    @remembered
    def covariance(self):
        return self.root @ self.root.T + 1e-3 * torch.eye(4)

    def forward(self, x):
        return x @ self.covariance()


torch.manual_seed(0)
process = Process()
optimizer = torch.optim.Adam(process.parameters())
for _ in range(3):
    loss = process(torch.randn(5, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
