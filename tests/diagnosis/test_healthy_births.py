"""Healthy trainings under `watch(nonfinite=True)`: nothing that is born in them is to blame for anything."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_healthy_models import Program, programs

import backsight as bs
from backsight.diagnosis.births import told


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.__name__)
def test_nothing_is_told_of_births(program: Program) -> None:
    torch.manual_seed(0)
    reports: list[Any] = []
    with bs.watch(nonfinite=True) as watch:
        program(reports.append)
    assert told(watch.nonfinite, watch.lost) is None
    assert not [finding for report in reports for finding in report if finding.code == "BS112"]
