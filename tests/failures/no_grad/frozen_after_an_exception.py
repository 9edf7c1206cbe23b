# code: BS203
# variable: loss
# cause: w.requires_grad_(False)
# fix: into the `finally:`
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def fixed(module):
    for w in module.parameters():
        w.requires_grad_(False)
    yield module
    for w in module.parameters():
        w.requires_grad_(True)


def attacked(model, x, y):
    """The batch, moved up the slope of the loss; as it is where the loss is not finite."""
    x = x.clone().requires_grad_()
    with fixed(model):
        loss = nn.functional.cross_entropy(model(x), y)
        if not loss < 1e3:
            raise FloatingPointError
        (slope,) = torch.autograd.grad(loss, x)
    return (x + 0.1 * slope.sign()).detach()


model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    x, y = torch.randn(6, 4), torch.randint(0, 2, (6,))
    if step == 1:
        x[0, 0] = float("inf")
    try:
        x = attacked(model, x, y)
    except FloatingPointError:
        x = x.nan_to_num(posinf=1.0)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
