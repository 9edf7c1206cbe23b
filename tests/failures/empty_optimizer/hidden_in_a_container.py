# code: BS223
# variable: model.layers
# cause: self.layers = layers
# fix: self.layers = nn.ModuleList(layers)
# varied: model = Hidden([linear(), linear()])
# or: model = Hidden((linear(),))
# or: model = Hidden({"a": linear()})
# or: model = Hidden({"a": [linear(), linear()]})
# or: model = Hidden([nn.Parameter(torch.ones(2))])
# or: model = Hidden([torch.ones(2, requires_grad=True)])
# or: model = nn.Sequential(nn.ReLU(), Hidden([linear()]))
# or: model = Hidden([nn.ReLU(), 3])
import torch
from torch import nn


class Hidden(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers


linear = lambda: nn.Linear(2, 2)
model = Hidden([linear(), linear()])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
