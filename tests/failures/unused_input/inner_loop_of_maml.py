# code: BS204
# variable: fast['l1.weight']
# cause: loss = F.mse_loss(self.model(x), y)
# fix: write `loss = F.mse_loss(self.model(x, params=fast), y)`
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn


class SineNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = nn.Linear(1, 16), nn.Linear(16, 1)

    def forward(self, x, params=None):
        p = OrderedDict(self.named_parameters()) if params is None else params
        return F.linear(F.relu(F.linear(x, p["l1.weight"], p["l1.bias"])), p["l2.weight"], p["l2.bias"])


class Maml:
    def __init__(self, model):
        self.model = model

    def adapt(self, x, y):
        fast = OrderedDict(self.model.named_parameters())
        for _ in range(2):
            loss = F.mse_loss(self.model(x), y)
            grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
            fast = OrderedDict((n, w - 0.02 * g) for (n, w), g in zip(fast.items(), grads))
        return fast


x = torch.rand(10, 1)
Maml(SineNet()).adapt(x, torch.sin(x))
