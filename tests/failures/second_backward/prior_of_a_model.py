# code: BS201
# variable: net.prior
# cause: self.prior = torch.softmax(self.gate(torch.ones(1, 4)), dim=-1)
# fix: inside the loop
import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList([nn.Linear(5, 1) for _ in range(3)])
        self.prior = torch.softmax(self.gate(torch.ones(1, 4)), dim=-1)


torch.manual_seed(0)
net = Mixture()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x, y = torch.randn(8, 5), torch.randn(8, 1)
    outs = torch.cat([expert(x) for expert in net.experts], dim=1)
    pred = (outs * net.prior).sum(1, keepdim=True)
    mse = (pred - y).square().mean()
    opt.zero_grad()
    mse.backward()
    opt.step()
