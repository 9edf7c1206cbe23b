# code: BS202
# variable: net.norm.shift
# cause: self.shift.lerp_(h.detach().mean(0), 0.1)
# fix: `return h * self.scale.clone() + torch.tanh(h) * self.shift.clone()`
import torch
from torch import nn

torch.manual_seed(0)


class Running(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("shift", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))

    def forward(self, h):
        self.scale.lerp_(h.detach().std(0), 0.1)
        self.shift.lerp_(h.detach().mean(0), 0.1)
        return h * self.scale + torch.tanh(h) * self.shift


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Running(4)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = self.norm(layer(x))
        return x


net = Net()
loss = net(torch.randn(6, 4)).square().mean()
loss.backward()
