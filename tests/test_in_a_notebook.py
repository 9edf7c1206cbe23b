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


def forecast():
    return bs.forecast(torch.nn.Linear(3, 1), torch.randn(1, 3), torch.optim.SGD, variants=False)


PRINTED = {
    "A forecast": forecast,
    "backward of": lambda: bs.walk(loss()).run(),
    "Addmm": profiled,
    "Peak": lambda: bs.measure_memory(lambda: loss().backward()),
}


SHOWN = {
    "live graph": bs.graphs,
    "No graph has grown": lambda: bs.graphs().growth_since(bs.graphs()),
    "Addmm": profiled,
    "Peak": forecast,
}


@pytest.mark.parametrize("word", SHOWN)
def test_what_ends_a_cell_is_shown_as_it_is_printed(word):
    pretty = pytest.importorskip("IPython.lib.pretty")
    kept = loss()
    result = SHOWN[word]()
    assert pretty.pretty(result) == str(result)
    assert word in str(result)
    del kept


@pytest.mark.parametrize("word", PRINTED)
def test_what_is_printed_in_a_notebook_is_text(word, monkeypatch):
    elsewhere = str(PRINTED[word]())
    monkeypatch.setattr(console, "_is_jupyter", lambda: True)
    assert word in elsewhere
    shown = str(PRINTED[word]())
    assert word in shown
    assert "\x1b" not in shown
