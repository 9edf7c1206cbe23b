"""What the handler of a signal raises is the program's, wherever in a recording the signal arrives."""

from __future__ import annotations

import os
import signal
import sys

import pytest
import torch
from torch import nn

import backsight as bs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such signals")


class TimeLimit(Exception):
    pass


@pytest.fixture
def limit():
    def reached(*_):
        raise TimeLimit("the program's own")

    before = signal.signal(signal.SIGUSR1, reached)
    yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("place", ["variable", "metric", "schedule", "a hook"])
def test_it_ends_a_recorded_training(tmp_path, limit, monkeypatch, place):
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"run": tmp_path / "run"}
    if place == "variable":
        options["variables"] = {"v": lambda: (limit(), torch.ones(2))[1]}
    if place == "schedule":
        options["every"] = lambda step: (limit(), True)[1]
    if place == "a hook":
        from backsight.recording.page import Page

        note = Page.note
        monkeypatch.setattr(Page, "note", lambda *args: (limit(), note(*args))[1])
    with pytest.raises(TimeLimit), bs.record(model, optimizer, **options) as recorder:
        if place == "metric":
            recorder.metric("output")(lambda tensor: (limit(), 1.0)[1])
        for _ in range(3):
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
