# code: BS200
# variable: optimizer
# cause: optimizer.load_state_dict(saved["optimizer"])
# fix: write `pass` on line 13
import torch
from torch import nn


def resume(model, saved):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model.load_state_dict(saved["model"])
    try:
        optimizer.load_state_dict(saved["optimizer"])
    except FileNotFoundError:
        print("a new state")
    return optimizer


first = nn.Linear(4, 2)
old = torch.optim.SGD(first.parameters(), lr=1e-2, momentum=0.9)
first(torch.randn(3, 4)).sum().backward()
old.step()
model = nn.Linear(4, 2)
optimizer = resume(model, {"model": first.state_dict(), "optimizer": old.state_dict()})
model(torch.randn(3, 4)).pow(2).mean().backward()
optimizer.step()
