"""Small trainings, and what was recorded of them."""

from __future__ import annotations

import torch

import backsight as bs


class Net(torch.nn.Module):
    """Two layers, one of them called twice."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 6)
        self.last = torch.nn.Linear(6, 1)

    def forward(self, x, scale=None):
        hidden = torch.relu(self.first(torch.relu(self.first(x))))
        return self.last(hidden if scale is None else hidden * scale)


def train(model, optimizer, steps=3, *, width=6, loss=lambda out: out.square().mean()):
    """Take training steps on fixed data."""
    data = torch.linspace(-1, 1, 4 * width * steps).reshape(steps, 4, width)
    for x in data:
        optimizer.zero_grad()
        loss(model(x)).backward()
        optimizer.step()


def rows(path, **query):
    """Return what a run holds as dicts, one per row."""
    columns = bs.open_run(path).frame(as_="numpy", **query)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def names(path, **query):
    """Return the names of the tensors with rows, in the order in which they came."""
    return list(dict.fromkeys(row["tensor"] for row in rows(path, **query)))
