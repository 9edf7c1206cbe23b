"""Which backwards are audited: the first passes of each in the program, one between two optimizer steps."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from backsight.launch.first_steps import PASSES, FirstSteps


def audits(steps: int, micro_batches: int) -> int:
    """How many losses are audited in a training of so many steps, each of so many backwards at one line."""
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watching = FirstSteps("calls")
    try:
        for _ in range(steps):
            for _ in range(micro_batches):
                model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    finally:
        watching.stop()
    assert not watching.failed
    return watching.audits


def test_of_the_micro_batches_of_a_step_the_first_is_audited() -> None:
    assert audits(steps=1, micro_batches=5) == 1
    assert audits(steps=2, micro_batches=5) == 2


def test_a_backward_is_audited_in_its_first_steps_and_then_left_alone() -> None:
    assert audits(steps=PASSES + 2, micro_batches=2) == PASSES


@pytest.mark.parametrize(("processes", "level"), [("1", "exact"), ("4", "lines")])
def test_ranks_are_watched_by_their_lines(monkeypatch: pytest.MonkeyPatch, processes: str, level: str) -> None:
    monkeypatch.setenv("WORLD_SIZE", processes)
    watching = FirstSteps()
    watching.stop()
    assert watching.watch.level == level
