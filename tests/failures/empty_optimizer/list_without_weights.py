# code: BS223
# variable: model
# cause: torch.optim.SGD(model.parameters(), lr=0.1)
# fix: self.layer = nn.Linear(...)
import torch
from torch import nn


class Hidden(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers


linear = lambda: nn.Linear(2, 2)
model = Hidden([nn.ReLU(), 3])
torch.optim.SGD(model.parameters(), lr=0.1)
