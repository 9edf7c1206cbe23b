# code: BS200
# variable: optimizer
# cause: optimizer.load_state_dict(saved["optimizer"])
# fix: remove lines 21 and 22
import io

import torch
from torch import nn


def train(adam, file=None):
    model = nn.Linear(4, 2)
    if adam:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, nesterov=True)
    if file is not None:
        file.seek(0)
        saved = torch.load(file)
        model.load_state_dict(saved["model"])
        if saved["optimizer"] is not None:
            optimizer.load_state_dict(saved["optimizer"])
    for _ in range(2):
        model(torch.randn(3, 4)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    last = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, last)
    return last


train(adam=True, file=train(adam=False))
