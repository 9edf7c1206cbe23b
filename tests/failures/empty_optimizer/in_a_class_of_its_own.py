# code: BS223
# variable: model.coder
# cause: self.coder = Coder(d, 3)
# fix: class Coder(nn.Module):
import torch
from torch import nn


class Coder:
    def __init__(self, d, k):
        self.enc = nn.Linear(d, k)
        self.dec = nn.Linear(k, d)

    def __call__(self, x):
        return self.dec(torch.tanh(self.enc(x)))


class Net(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.coder = Coder(d, 3)

    def forward(self, x):
        return self.coder(x)


torch.manual_seed(0)
model = Net(6)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 6)
for step in range(3):
    loss = (model(x) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
