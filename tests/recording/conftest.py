"""Fixtures of the recording tests."""

from __future__ import annotations

import os
import sys
import textwrap

import fresh
import pytest
import torch
from trainings import Net


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


@pytest.fixture
def in_a_process():
    """Run a program in a process of its own, and return what it said; it has to succeed."""

    def run_program(text, **environment):
        done = fresh.run(
            [sys.executable, "-c", textwrap.dedent(text)],
            timeout=120,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )
        assert done.returncode == 0, done.stderr
        return done

    return run_program
