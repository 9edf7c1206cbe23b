"""Small trainings, and what was recorded of them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
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


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def net():
    return Net()


@pytest.fixture
def run(tmp_path):
    """The folder of a run."""
    return tmp_path / "run"


def train(model, optimizer, steps=3, *, width=6, loss=lambda out: out.square().mean()):
    """Take training steps on fixed data."""
    data = torch.linspace(-1, 1, 4 * width * steps).reshape(steps, 4, width)
    for x in data:
        optimizer.zero_grad()
        loss(model(x)).backward()
        optimizer.step()


def rows(path, **query):
    """Return what a run holds as dicts, one a row."""
    columns = bs.open_run(path).frame(as_="numpy", **query)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def names(path, **query):
    """Return the names of the tensors with rows, in the order in which they came."""
    return list(dict.fromkeys(row["tensor"] for row in rows(path, **query)))


@pytest.fixture
def in_a_process():
    """Run a program in a process of its own, and return what it said; it has to succeed."""

    def run_program(text, **environment):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(text)],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )
        assert done.returncode == 0, done.stderr
        return done

    return run_program
