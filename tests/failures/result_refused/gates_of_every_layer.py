# code: BS219
# variable: net.layers[0].gate
# cause: kept = copy.deepcopy(net)
# fix: .detach()
import copy

import torch
from torch import nn


class GatedLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lin = nn.Linear(width, width)
        self.to_gate = nn.Linear(width, width)
        self.gate = None

    def forward(self, x):
        gate = torch.sigmoid(self.to_gate(x))
        self.gate = gate
        return x + gate * self.lin(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([GatedLayer(6), GatedLayer(6)])
        self.out = nn.Linear(6, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
best, kept = float("inf"), None
for epoch in range(5):
    x = torch.randn(16, 6)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if loss.item() < best:
        best = loss.item()
        kept = copy.deepcopy(net)
