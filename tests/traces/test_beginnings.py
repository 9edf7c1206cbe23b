"""What was different as a training began: the line that made it, its precision, and whose seed it is not."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import backsight as bs
from backsight.traces import Tracer


class Model(nn.Module):
    def __init__(self, std: float = 0.02, copied: bool = False):
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 16)
        nn.init.normal_(self.last.weight, std=std)
        self.register_buffer("table", torch.outer(torch.arange(64.0), 1e4 ** -(torch.arange(16) / 16)).cos())
        if copied:
            self.last.load_state_dict({"weight": torch.full((16, 16), 0.1), "bias": self.last.bias})

    def forward(self, x):
        return self.last(torch.tanh(self.first(x + self.table)))


@pytest.fixture
def trained(tmp_path):
    """Train one step as `backsight run --trace` sees it: from before the model is made."""

    def train(name: str, seed: int = 0, before=lambda: None, data=lambda: torch.ones(4, 64, 16), **options) -> Path:
        tracer = Tracer(tmp_path / name, (0,), values=False, say=pytest.fail, summaries=True)
        tracer.start(at_call=True)
        before()
        torch.manual_seed(seed)
        model = Model(**options)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(data()).square().mean().backward()
        optimizer.step()
        tracer.close()
        return tracer.path

    return train


def test_a_weight_that_is_initialized_otherwise_has_the_line_of_both(trained):
    difference = bs.diff(trained("a"), trained("b", std=0.08))
    assert (difference.cls, difference.first.code) == ("semantics", "BS504"), difference.text()
    assert [each.text for each in difference.origin.origin.places] == ["nn.init.normal_(self.last.weight, std=std)"] * 2
    assert "A: written last by normal_(0, 0.02); B: written last by normal_(0, 0.08)" in difference.origin.reasons
    assert "the seed is the same" in difference.text() and "seed both" not in difference.first.fix


def test_another_seed_is_no_other_initialization(trained):
    difference = bs.diff(trained("a"), trained("b", seed=1))
    assert difference.first.code == "BS504" and "seed both" in difference.first.fix
    assert "the state of PyTorch's random generator differs as step 0 begins" in difference.origin.reasons


def test_weights_that_are_loaded_have_the_line_that_loads_them(trained):
    difference = bs.diff(trained("a"), trained("b", copied=True))
    assert difference.origin.origin.places[1].text.startswith("self.last.load_state_dict("), difference.text()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_table_that_is_rounded_is_precision(trained, monkeypatch, dtype):
    ours = trained("a")
    whole = torch.Tensor.cos
    monkeypatch.setattr(torch.Tensor, "cos", lambda self: whole(self).to(dtype).float())
    difference = bs.diff(ours, trained("b"))
    assert (difference.cls, difference.first.code) == ("precision", "BS502"), difference.text()
    assert f"rounded to {str(dtype).removeprefix('torch.')}" in difference.text()
    assert 'self.register_buffer("table"' in difference.origin.origin.places[0].text


def test_generators_that_nobody_uses_are_not_named(trained):
    ours = trained("a")
    np.random.rand()
    random.random()
    difference = bs.diff(ours, trained("b", std=0.08, seed=1))
    assert "PyTorch's random generator differs" in difference.text()
    torch.manual_seed(0)
    theirs = trained("c", std=0.08, before=lambda: np.random.rand(3))
    assert "NumPy's" not in difference.text() and "Python's" not in bs.diff(ours, theirs).text()


def rolled(generator: random.Random) -> torch.Tensor:
    many = [generator.random() for _ in range(1024)]
    return torch.tensor(many).reshape(1, 64, 16)


def drawn(own: torch.Generator) -> torch.Tensor:
    images = torch.randn(4, 64, 16, generator=own)
    return images[:2]


@pytest.mark.parametrize(
    ("data", "generator", "line"),
    [
        (rolled, random.Random, "return torch.tensor(many).reshape(1, 64, 16)"),
        (
            drawn,
            lambda seed: torch.Generator().manual_seed(seed),
            "images = torch.randn(4, 64, 16, generator=own)",
        ),
    ],
)
def test_data_that_differ_have_the_line_that_made_them(trained, data, generator, line):
    ours, same, other = (trained(str(n), data=lambda n=n: data(generator(n // 2))) for n in range(3))
    assert bs.diff(ours, same).cls == "same"
    difference = bs.diff(ours, other)
    assert (difference.cls, difference.first.code) == ("semantics", "BS505"), difference.text()
    assert [each.text for each in difference.origin.origin.places] == [line] * 2
    assert f"  {line}\n      runs in both." in difference.text()
