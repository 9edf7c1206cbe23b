# code: BS200
# variable: net
# cause: net.share_memory()
# fix: put `with torch.no_grad(): net(x)` above line 30
# fix: and remove self.gate from Net
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.LazyConv1d(4, 3)
        self.gate = nn.LazyConv1d(4, 3)
        self.head = nn.LazyLinear(1)

    def forward(self, x):
        return self.head(self.mix(x).tanh().flatten(1))


def squared(net, x):
    return (net(x) - 1).square().mean()


net = Net()
x = torch.randn(8, 2, 9)

net.share_memory()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    squared(net, x).backward()
    optimizer.step()
print(net(x).mean())
