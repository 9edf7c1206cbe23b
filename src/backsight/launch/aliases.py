"""States of models that are kept to be loaded later: read of once, and looked for at spaced steps if there are any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FrameType

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.aliased import Kept, aliased, kept

_READ = 8
"""The step of any optimizer at which the text is read."""


class Aliases:
    """Follows the states that a program keeps, of which most keep none."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._kept: list[Kept] = []

    def stepped(
        self, step: int, optimizers: Callable[[], Sequence[torch.optim.Optimizer]], caller: Callable[[], FrameType]
    ) -> None:
        """Note a step of any optimizer, the number of which is `step`."""
        if step < _READ or step & (step - 1):
            return
        if step == _READ:
            self._kept = kept(caller())
        if self._kept and not self.findings:
            self.findings = aliased(self._kept, optimizers(), step)
