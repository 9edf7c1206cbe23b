# code: BS202
# variable: model.inner.weight
# cause: hidden = model.inner(torch.tanh(model.body(inputs)))
# fix: hidden = model.inner(torch.tanh(model.body(inputs)))
"""A small regression with L-BFGS, whose hidden features are computed once, above the closure."""

import torch
from torch import nn


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 8)
        self.inner = nn.Linear(8, 8)
        self.head = nn.Linear(8, 1)


def fit(model, inputs, targets):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.3, max_iter=5)
    hidden = model.inner(torch.tanh(model.body(inputs)))

    def evaluate():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model.head(hidden), targets)
        loss.backward(retain_graph=True)
        return loss

    for _ in range(4):
        loss = optimizer.step(evaluate)
        print(loss.item())


torch.manual_seed(0)
inputs = torch.randn(32, 3)
fit(Regression(), inputs, inputs.sum(1, keepdim=True).sin())
