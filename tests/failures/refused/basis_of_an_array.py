# code: BS200
# variable: loss.backward()
# cause: loss = nn.functional.huber_loss(curve, target)
# fix: Or make basis.weights float32: on line 14, write `self.weights = torch.from_numpy(np.stack([1 - t, t], axis=1)).float()`
# unsure: that the attribute gave its dtype is read from the text
import numpy as np
import torch
from torch import nn


class Basis:
    def __init__(self, count):
        t = np.linspace(0, 1, count)
        self.weights = torch.from_numpy(np.stack([1 - t, t], axis=1))

    def __call__(self, ends):
        return self.weights @ ends.to(self.weights)


net, basis = nn.Linear(3, 4), Basis(5)
ends = net(torch.randn(6, 3)).view(6, 2, 2)
target = torch.rand(6, 5, 2)
curve = basis(ends)
loss = nn.functional.huber_loss(curve, target)
loss.backward()
