"""What tests of clipping begin with."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import backsight.gradient_release as gradient_release
from backsight.gradient_release.clipping.taps import Taps


@pytest.fixture
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def small():
    """A released linear layer of 900 weights with a bucket of one gradient, and its optimizer."""
    layer = nn.Linear(30, 30)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    return layer, optimizer, gradient_release.release(optimizer, bucket=0)


@pytest.fixture
def only():
    """Open taps for the parameters of one model, so that a copy of it runs ordinarily beside it."""
    opened = []

    def tap(model):
        ours = {id(p) for p in model.parameters()}
        opened.append(Taps(lambda weight: id(weight) in ours))
        return opened[-1]

    yield tap
    for each in opened:
        each.close()
