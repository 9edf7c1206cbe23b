# code: BS223
# variable: net
# cause: hidden = torch.tanh(nn.Linear(6, 12)(x))
# fix: `self.squeeze_1 = nn.Linear(6, 12)`
import torch
from torch import nn


class Folded(nn.Module):
    def __init__(self, noise):
        super().__init__()
        self.noise = noise

    def squeeze(self, x):
        hidden = torch.tanh(nn.Linear(6, 12)(x))
        narrow = nn.Linear(12, 3)
        return narrow(hidden + self.noise * torch.randn_like(hidden)), nn.Linear(12, 6)(hidden)

    def forward(self, x):
        code, rest = self.squeeze(x)
        return nn.ReLU()(nn.Linear(3, 6)(code) + rest)


net = Folded(0.1)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(3):
    x = torch.rand(16, 6)
    loss = (net(x) - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
