"""Optimizers that take turns on the same parameters, and whether one undoes what the other learns."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.rules.held import opposed
from backsight.launch.sign import Audit, Sign, Step
from backsight.tape import is_captured
from backsight.tracing.steps import parameters

_TWICE = "BS106"
"""The code of what two optimizers hold, which is a fault if one undoes what the other learns."""

_TURNS = 24
"""The first turns, all of which are compared, and then one in so many: a device is waited for in each."""

_ENOUGH = 12
"""The last of the turns that were compared, all but one of which are to disagree."""

_OPPOSED = -0.2
"""The mean cosine below which two gradients pull in opposite directions."""

_MOST = 8
"""Parameters that are compared, and of each"""
_VALUES = 256
"""as many values."""


class Turns(Sign):
    """Follows one pair of optimizers: a wider one, and a narrower one all of whose parameters the wider one holds."""

    def __init__(self) -> None:
        self._shared: list[weakref.ref[torch.Tensor]] = []
        self._pair: list[weakref.ref[torch.optim.Optimizer]] = []
        self._last: torch.Tensor | None = None
        self._cosines: deque[float] = deque(maxlen=_ENOUGH)
        self._turns = 0
        self._found: list[Finding] = []

    def audited(self, audit: Audit) -> None:
        for finding in audit.report.findings:
            if finding.code == _TWICE:
                self._follow(audit.leaves(finding), audit.optimizers)

    def _follow(self, shared: Sequence[torch.Tensor], optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Compare the gradients of these from now on, if two of the optimizers hold them and one holds more."""
        if self._pair or not shared:
            return
        held = [(each, {id(p) for p in parameters(each)}) for each in optimizers]
        wanted = {id(p) for p in shared}
        both = sorted((each for each in held if wanted <= each[1]), key=lambda each: -len(each[1]))
        if len(both) == 2 and both[1][1] < both[0][1]:
            self._pair = [weakref.ref(each) for each, _ in both]
            self._shared = [weakref.ref(p) for p in shared[:_MOST]]

    def each_step(self, step: Step) -> None:
        if not self._pair or is_captured():
            return
        optimizer = step.optimizer
        wider, narrower = (ref() for ref in self._pair)
        if optimizer is narrower and (self._turns < _TURNS or not self._turns % _TURNS):
            self._last = self._gradient()
        elif optimizer is wider and wider is not None and narrower is not None:
            self._turns += 1
            last, self._last = self._last, None
            if last is not None and (now := self._gradient()) is not None and now.shape == last.shape:
                self._cosines.append(float(torch.nn.functional.cosine_similarity(last, now, dim=0)))
                self._judge(wider, narrower, step)

    def _judge(self, wider: torch.optim.Optimizer, narrower: torch.optim.Optimizer, step: Step) -> None:
        held = [p for ref in self._shared if (p := ref()) is not None]
        mean = sum(self._cosines) / len(self._cosines)
        disagree = sum(each < 0 for each in self._cosines) >= _ENOUGH - 1
        if not self._found and held and disagree and mean < _OPPOSED:
            self._found = [opposed(wider, narrower, held, mean, _ENOUGH, step.caller())]

    def _gradient(self) -> torch.Tensor | None:
        held = [p.grad for ref in self._shared if (p := ref()) is not None and p.grad is not None]
        if not held or any(each.layout != torch.strided for each in held):
            return None
        with torch.no_grad():
            return torch.cat([each.detach().reshape(-1)[:_VALUES].double() for each in held])
