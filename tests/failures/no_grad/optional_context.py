# code: BS203
# variable: loss
# cause: with context:
# fix: context
import contextlib

import torch
from torch import nn


class Runner:
    def __init__(self, model):
        self.model = model
        self.training = False

    def run(self, x, y):
        context = contextlib.nullcontext() if self.training else torch.no_grad()
        with context:
            output = self.model(x)
        return nn.functional.mse_loss(output, y)


runner = Runner(nn.Linear(3, 1))
optimizer = torch.optim.SGD(runner.model.parameters(), lr=0.1)
loss = runner.run(torch.randn(4, 3), torch.randn(4, 1))
optimizer.zero_grad()
loss.backward()
