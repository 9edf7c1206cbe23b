"""Parameters that each forward pass writes anew, so that no step of the optimizer lasts."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.rewritten import rewritten, told_rewritten
from backsight.launch.sign import Sign, Step
from backsight.tape import version
from backsight.tracing import Watch

_SEEN = (4, 8)
"""The steps of an optimizer after which the watch is asked."""


@dataclass(slots=True)
class _Versions:
    """How often a parameter was changed up to the last step, and between the first two that were looked at."""

    parameter: weakref.ref[torch.Tensor]
    step: int
    last: int
    each: int = 0

    def goes_on(self, step: int) -> bool:
        """Whether it was changed as often since the step before as it was at first."""
        parameter = self.parameter()
        now = version(parameter) if parameter is not None else None
        if now is None or step == self.step:
            return True
        changes, self.last = now - self.last, now
        self.each = self.each or changes
        return changes >= self.each


class Rewriting(Sign):
    """Asks an exact watch in the first steps, and follows by its version what is rewritten: whether that goes on."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._found: dict[int, tuple[list[Finding], list[_Versions]]] = {}

    def each_step(self, step: Step) -> None:
        known = self._found.get(step.key)
        if known is not None and not all(each.goes_on(step.steps) for each in known[1]):
            del self._found[step.key]

    def doubled(self, step: Step) -> None:
        if step.steps not in _SEEN or step.key in self._found:
            return
        found = rewritten(self._watch, step.optimizer, step.models)
        if found:
            versions = [
                _Versions(weakref.ref(each.parameter), step.steps, version(each.parameter) or 0) for each in found[:2]
            ]
            self._found[step.key] = told_rewritten(found, max(step.number - step.steps + 1, 1)), versions

    @property
    def findings(self) -> list[Finding]:
        """What has gone on to the end."""
        return [finding for found, _ in self._found.values() for finding in found]
