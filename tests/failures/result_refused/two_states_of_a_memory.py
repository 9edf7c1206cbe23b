# code: BS219
# variable: net.cell
# cause: backup = copy.deepcopy(net)
# fix: net.hidden = net.hidden.detach()
import copy

import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.LSTMCell(3, 6)
        self.out = nn.Linear(6, 1)
        self.cell = self.hidden = torch.zeros(4, 6)

    def forward(self, x):
        self.hidden, self.cell = self.step(x, (self.hidden.detach(), self.cell.detach()))
        return self.out(self.hidden)


torch.manual_seed(0)
net = Reader()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(torch.randn(4, 3)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    backup = copy.deepcopy(net)
