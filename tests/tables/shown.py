"""Trainings that are recorded to be looked at, and the environment of a command that does so."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import backsight as bs

SOURCE = Path(bs.__file__).parents[1]

Command = Callable[..., subprocess.CompletedProcess[str]]


class Net(nn.Module):
    """Two layers that learn, one that no output depends on, and one that is dead."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.dead = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.last = nn.Linear(8, 1)
        self.unused = nn.Linear(2, 2)
        nn.init.constant_(self.dead[0].bias, -100.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        out: torch.Tensor = self.last(x + self.dead(x))
        return out


def record(path: Path, model: nn.Module, steps: int = 12, **options: Any) -> bs.Recorder:
    """Record a training of a model that takes [n, 4]."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rec = bs.record(model, optimizer, run=path, **options)
    for step in range(steps):
        rec.mark(epoch=step // 4)
        optimizer.zero_grad()
        (model(torch.randn(16, 4)) - 1).square().mean().backward()
        optimizer.step()
    rec.close()
    return rec


def environment(**extra: str) -> dict[str, str]:
    held = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR", "NO_COLOR")}
    return {**held, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "utf-8", **extra}


def line_of(text: str, *words: str) -> str:
    """The only line with all of these words."""
    found = [line for line in text.splitlines() if all(word in line for word in words)]
    assert len(found) == 1, found or text
    return found[0]
