"""In a notebook rich writes to the cell by itself; what backsight makes of it there is text as everywhere."""

import pytest
import torch
from rich import console

import backsight as bs


def loss():
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    return model(torch.randn(2, 3)).square().mean()


def profiled():
    with bs.profile() as profile:
        loss().backward()
    return profile


PRINTED = {
    "backward of": lambda: bs.walk(loss()).run(),
    "Addmm": profiled,
    "Peak": lambda: bs.measure_memory(lambda: loss().backward()),
}


@pytest.mark.parametrize("word", PRINTED)
def test_what_is_printed_in_a_notebook_is_text(word, monkeypatch):
    elsewhere = str(PRINTED[word]())
    monkeypatch.setattr(console, "_is_jupyter", lambda: True)
    assert word in elsewhere
    assert word in str(PRINTED[word]())
