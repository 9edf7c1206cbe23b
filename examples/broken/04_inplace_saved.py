"""A gated layer that closes its first gate by writing into the output of a sigmoid.

What is wrong: the backward of sigmoid is computed from its own output, and `gates[:, 0] = 0` overwrote that.
PyTorch says:  one of the variables needed for gradient computation has been modified by an inplace operation
Fix:          make a new tensor instead of changing the old one: `gates = gates * mask`, or write into a
               copy (`gates = gates.clone()` first).
"""

import torch
import torch.nn.functional as F
from torch import nn


class GatedLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x):
        gates = torch.sigmoid(self.gate(x))
        gates[:, 0] = 0  # feature 0 is the padding flag: never let it through
        return gates * self.value(x)


torch.manual_seed(0)
x, y = torch.randn(128, 16), torch.randn(128, 1)
model = nn.Sequential(GatedLayer(16), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for epoch in range(5):
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
