"""Commands whose output is closed (`>&-`, as by some services): they do their work, and exit as ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from shown import record
from torch import nn

LAYERS = """
import torch

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    record(tmp_path / "runs" / "first", nn.Linear(4, 1))
    (tmp_path / "layers.py").write_text(LAYERS)
    return tmp_path


def backsight(place: Path, command: str, closed: str) -> subprocess.CompletedProcess[str]:
    shell = f'exec "{sys.executable}" -m backsight {command} {closed}'
    return subprocess.run(["sh", "-c", shell], cwd=place, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["runs", "runs show", "verify layers.py:Twice", "view --report r.html runs"])
def test_with_stdout_closed_nothing_is_said(place: Path, command: str) -> None:
    done = backsight(place, command, ">&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_with_stderr_closed_no_complaint_comes_on_stdout(place: Path) -> None:
    done = backsight(place, "runs show nothing", "2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
