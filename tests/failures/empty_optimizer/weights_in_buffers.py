# code: BS223
# variable: net.first.gain
# cause: optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
# fix: `optimizer = torch.optim.SGD([each for each in net.buffers() if each.requires_grad], lr=0.1)`
import torch
from torch import nn


class Fast(nn.Module):
    def weights(self):
        for part in self.modules():
            yield from (each for each in part._buffers.values() if each.requires_grad)


class Scale(Fast):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("gain", torch.ones(size, requires_grad=True))
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        return x * self.gain


class Net(Fast):
    def __init__(self):
        super().__init__()
        self.first, self.second = Scale(4), Scale(4)

    def forward(self, x):
        return self.second(self.first(x).tanh())


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = net(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
