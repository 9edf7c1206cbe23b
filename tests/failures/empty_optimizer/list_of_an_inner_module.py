# code: BS223
# variable: model.1.layers
# cause: self.layers = layers
# fix: self.layers = nn.ModuleList(layers)
import torch
from torch import nn


class Hidden(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers


linear = lambda: nn.Linear(2, 2)
model = nn.Sequential(nn.ReLU(), Hidden([linear()]))
torch.optim.SGD(model.parameters(), lr=0.1)
