"""Small trainings, recorded, and how the tests of the rules for recordings read what is found in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import backsight as bs
from backsight.recording import MORE_TAPS, TAPS

EVERYTHING = (*TAPS, *MORE_TAPS)
Loss = Callable[[int], torch.Tensor]


def batch(rows: int = 32, width: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Data with something to learn."""
    x = torch.randn(rows, width)
    return x, x.sum(1, keepdim=True)


def layers(count: int, activation: Callable[[], nn.Module] = nn.ReLU, width: int = 32) -> nn.Sequential:
    """A perceptron with so many hidden layers."""
    made: list[nn.Module] = [nn.Linear(8, width), activation()]
    for _ in range(count - 1):
        made += [nn.Linear(width, width), activation()]
    return nn.Sequential(*made, nn.Linear(width, 1))


def fitted(model: nn.Module) -> Loss:
    """The loss of a regression."""

    def loss(step: int) -> torch.Tensor:
        x, y = batch()
        return (model(x) - y).square().mean()

    return loss


def train(
    path: Path,
    model: nn.Module,
    loss_of: Loss | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    steps: int = 20,
    taps: tuple[str, ...] = TAPS,
    marks: bool = False,
    **options: Any,
) -> bs.Report:
    """Train, record it, and return the audit of the recording."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = loss_of or fitted(model)
    with bs.record(model, optimizer, run=path, taps=taps, **options) as rec:
        for step in range(steps):
            optimizer.zero_grad()
            loss = loss_of(step)
            loss.backward()
            if marks:
                rec.mark(loss=loss)
            optimizer.step()
    return bs.open_run(path).audit()


def grave(report: bs.Report) -> list[str]:
    """What is graver than a note."""
    return [str(finding) for finding in report.findings if finding.severity != "note"]


def marked(
    path: Path, losses: dict[str, np.ndarray], given: Callable[[int], torch.Tensor] = lambda step: batch()[0]
) -> bs.Report:
    """The audit of a run that marks a value of each loss in each step, unless it is None.

    given: the input of the model in a step.
    """
    model = layers(1)
    with bs.record(model, run=path / "run", taps=EVERYTHING) as rec:
        for step, values in enumerate(zip(*losses.values(), strict=True)):
            model(given(step))
            rec.mark(**{name: float(value) for name, value in zip(losses, values, strict=True) if value is not None})
            rec.step()
    return bs.open_run(path / "run").audit()
