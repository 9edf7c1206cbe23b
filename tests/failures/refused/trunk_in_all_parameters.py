# code: BS200
# variable: net.trunk
# cause: optimizer = torch.optim.SGD([{"params": net.parameters()}, {"params": net.trunk.parameters(), "lr": 0.01}], lr=0.1)
# fix: if not name.startswith("trunk.")]
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 6))
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        return self.head(self.trunk(x))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD([{"params": net.parameters()}, {"params": net.trunk.parameters(), "lr": 0.01}], lr=0.1)
x, y = torch.randn(20, 3), torch.randn(20, 1)
for step in range(4):
    loss = (net(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
