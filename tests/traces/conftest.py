"""Fixtures of the tests of traces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from trainings_traced import Training

import backsight as bs

Traced = Callable[..., bs.Trace]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def traced(tmp_path: Path) -> Traced:
    """Trace a training, made with the options that are given, and return the trace."""

    def run(steps: tuple[int, ...] = (0, 1), values: bool = False, **options: object) -> bs.Trace:
        training = Training(**options)
        folder = tmp_path / f"trace-{len(list(tmp_path.iterdir()))}"
        with bs.trace(folder, steps=steps, values=values):
            training.run(max(steps) + 1)
        return bs.open_trace(folder)

    return run
