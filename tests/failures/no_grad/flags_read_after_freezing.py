# code: BS203
# variable: error
# cause: before = {name: p.requires_grad for name, p in model.named_parameters()}
# fix: above line 12
import torch
from torch import nn


def most_exciting(model, steps=3):
    """The input that the model answers most strongly to, with the model fixed."""
    x = torch.zeros(1, 4, requires_grad=True)
    model.requires_grad_(False)
    before = {name: p.requires_grad for name, p in model.named_parameters()}
    for _ in range(steps):
        (slope,) = torch.autograd.grad(model(x).sum(), x)
        x = (x + 0.1 * slope.sign()).detach().requires_grad_()
    for name, p in model.named_parameters():
        p.requires_grad_(before[name])
    return x.detach()


model = nn.Sequential(nn.Linear(4, 6), nn.SiLU(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    x = torch.randn(10, 4)
    error = (model(x) - x.sum(1, keepdim=True)).abs().mean()
    optimizer.zero_grad()
    error.backward()
    optimizer.step()
    print(epoch, most_exciting(model))
