# code: BS223
# variable: net
# cause: self.layer = nn.Linear(x.shape[1], 4)
# fix: __init__()
import torch
from torch import nn


class Adaptive(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = None

    def forward(self, x):
        if self.layer is None:
            self.layer = nn.Linear(x.shape[1], 4)
        return self.layer(x)


def make_optimizer(parameters, lr=0.1):
    return torch.optim.SGD(parameters, lr=lr)


net = Adaptive()
optimizer = make_optimizer(net.parameters())
