# code: BS219
# variable: net.codes
# cause: kept.append(copy.deepcopy(net))
# fix: net.codes = net.codes.detach()
import copy

import torch
from torch import nn

torch.manual_seed(0)


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(5, 3), nn.Linear(3, 5)

    def encode(self, x):
        self.codes = self.inner(x).tanh()
        return self.codes

    def forward(self, x):
        return self.outer(self.encode(x))


net, kept = Coder(), []
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(20, 5)

for epoch in range(3):
    codes = net.encode(x)
    loss = (net.outer(codes) - x).square().mean() + 1e-3 * codes.square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    kept.append(copy.deepcopy(net))
