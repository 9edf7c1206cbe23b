"""A factor on one term of a loss that stands on another one: the forward passes agree to the last bit."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

import backsight as bs


class Quantizer(nn.Module):
    """Both terms are the same number, and each has a gradient of its own."""

    def __init__(self, terms):
        super().__init__()
        self.encoder, self.codes, self.terms = nn.Linear(6, 4), nn.Embedding(8, 4), terms

    def forward(self, x):
        encoded = self.encoder(x)
        found = self.codes(torch.cdist(encoded, self.codes.weight).argmin(1))
        return encoded + (found - encoded).detach(), self.terms(encoded, found)


def right(encoded, found):
    return mse_loss(found, encoded.detach()) + 0.25 * mse_loss(found.detach(), encoded)


def swapped(encoded, found):
    return mse_loss(found.detach(), encoded) + 0.25 * mse_loss(found, encoded.detach())


def by_hand(encoded, found):
    commitment = (encoded - found.detach()).square().mean()
    return commitment / 4 + (found - encoded.detach()).square().mean()


@pytest.fixture
def trained(tmp_path):
    def train(terms):
        torch.manual_seed(0)
        model, decoder = Quantizer(terms), nn.Linear(4, 6)
        optimizer = torch.optim.Adam([*model.parameters(), *decoder.parameters()], lr=0.01)
        data = torch.randn(16, 6, generator=torch.Generator().manual_seed(1))
        with bs.trace(tmp_path / terms.__name__, steps=(0, 1), model=model):
            for _ in range(2):
                optimizer.zero_grad()
                found, loss = model(data)
                (mse_loss(decoder(found), data) + loss).backward()
                optimizer.step()
        return tmp_path / terms.__name__

    return train


def test_a_factor_on_the_other_term_is_named_with_the_gradients_that_it_scales(trained):
    difference = bs.diff(trained(right), trained(swapped))
    assert (difference.cls, difference.first.code) == ("semantics", "BS507"), difference.text()
    lines = [each.text for each in difference.origin.origin.places]
    assert all("mse_loss" in each for each in lines), difference.text()
    assert "the gradient of model.codes.weight in B is that of A times 0.25" in difference.origin.reasons
    assert "detach" not in difference.first.title


def test_the_same_terms_written_otherwise_are_no_mistake(trained):
    difference = bs.diff(trained(right), trained(by_hand))
    assert difference.cls in ("same", "noise"), difference.text()
