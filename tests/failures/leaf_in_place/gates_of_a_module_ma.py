# code: BS205
# variable: blocks.0.gate
# cause: gate = self.squash(self.gate)
# fix: self.squash(self.gate.clone())
import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.squash = nn.Hardsigmoid(True)
        self.gate = nn.Parameter(torch.zeros(size))
        self.inner = nn.Sequential(nn.Linear(size, size), nn.ReLU(inplace=True))

    def forward(self, x):
        gate = self.squash(self.gate)
        return x + gate * self.inner(x)


torch.manual_seed(0)
blocks = nn.Sequential(Gated(4), Gated(4), nn.Linear(4, 1))
optimizer = torch.optim.Adam(blocks.parameters(), lr=0.01)
for _ in range(2):
    loss = blocks(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
