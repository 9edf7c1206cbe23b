# code: BS205
# variable: self.gate.bias
# cause: self.gate.bias.fill_(2.0)
# fix: no_grad
import torch
from torch import nn


class Highway(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.body = nn.Linear(width, width)
        self.gate.bias.fill_(2.0)

    def forward(self, x):
        g = torch.sigmoid(self.gate(x))
        return g * x + (1 - g) * torch.relu(self.body(x))


net = nn.Sequential(*[Highway(8) for _ in range(2)], nn.Linear(8, 1))
