# code: BS201
# variable: self.scale | net.0.scale | net.2.scale
# cause: self.scale = nn.functional.softplus(self.log_scale)
# fix: forward
import torch
from torch import nn


class ScaledLinear(nn.Module):
    """A linear layer whose rows have a learnt positive scale."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.log_scale = nn.Parameter(torch.zeros(outputs, 1))
        self.scale = nn.functional.softplus(self.log_scale)

    def forward(self, x):
        return x @ (self.weight * self.scale).T


def build(sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [ScaledLinear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


net = build([4, 8, 2])
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(2):
    loss = net(torch.randn(3, 4)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
