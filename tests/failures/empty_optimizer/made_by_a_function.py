# code: BS223
# variable: model.layers
# cause: self.layers = layers
# fix: self.layers = nn.ModuleList(layers)
import torch
from torch import nn


class Hidden(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers


linear = lambda: nn.Linear(2, 2)


class Mine(torch.optim.SGD):
    def __init__(self, params, speed):
        super().__init__(params, lr=speed)


def make(where, weights):
    return Mine(weights, 0.1)


model = Hidden([linear()])
make("cpu", weights=model.parameters())
