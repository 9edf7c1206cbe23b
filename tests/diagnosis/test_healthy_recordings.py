"""The recording of a healthy training has no finding graver than a note."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import healthy_recordings_of_methods
import healthy_recordings_of_nets
import healthy_recordings_of_transformers
import pytest
import torch
from recorded import EVERYTHING, grave

import backsight as bs

PROGRAMS = [
    *healthy_recordings_of_nets.PROGRAMS,
    *healthy_recordings_of_methods.PROGRAMS,
    *healthy_recordings_of_transformers.PROGRAMS,
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small models train faster on one thread, where several tests run at once."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("program", "seed"),
    [(program, (k + seed) % 3) for k, program in enumerate(PROGRAMS) for seed in range(3)],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_an_audit_of_its_recording_finds_nothing(program: Any, seed: int, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    program(lambda model, optimizer: bs.record(model, optimizer, run=tmp_path / "run", taps=EVERYTHING))
    run = bs.open_run(tmp_path / "run")
    assert len(run.steps) > 20
    assert not grave(run.audit())
