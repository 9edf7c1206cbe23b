"""Memory that is shared and should not be, looked for at a few spaced steps; parameters that should be, and are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.aliased import (
    Difference,
    Kept,
    SharedState,
    aliased,
    differences,
    kept,
    own_anchor,
    shared_state,
    told_shared,
)
from backsight.diagnosis.data_changed import Replay, Stored, changed_data, is_overwritten, overwritten, replays, stored
from backsight.diagnosis.twins import one_for_all
from backsight.diagnosis.untied import untied
from backsight.launch.sign import Audit, Sign, Step

_STATE = 8
"""The step at which the states of optimizers are looked at, and again at the next: a gradient made anew in each step
has other memory then."""

_MEMBERS = 16
_STORED = 8
_KEPT = 8
"""The step at which the text is read for states of models that are kept to be loaded later."""

_REPLAYED = (8, 32, 128, 512)
"""The steps at which replay memories are looked for."""

_MOST_LOOKS = 512
_ENOUGH = 3
"""Looks in a row at which stored data had changed."""


class Sharing(Sign):
    """Looks for states, members and stored data that are not what they should be: of their own."""

    def __init__(self) -> None:
        self._aliased: list[Finding] = []
        self._findings: list[Finding] = []
        self._kept: list[Kept] = []
        self._state: list[SharedState] = []
        self._stored: list[Stored] = []
        self._changed: dict[int, int] = {}
        self._differences: list[Difference] = []
        self._anchors: list[Finding] = []
        self._replays: list[Replay] = []
        self._overwritten: list[Finding] = []

    def each_step(self, step: Step) -> None:
        if step.number in (_STATE, 4 * _STATE):
            self._state = [each for optimizer in step.optimizers for each in shared_state(optimizer)]
        elif self._state:
            self._still_shared(step.number, step.optimizers)
        for each in self._replays:
            if each.has_changed:
                self._replays = []
                if each.is_stored():
                    self._overwritten = [overwritten(each, step.number, step.caller())]
                break

    def run_doubled(self, step: Step) -> None:
        if step.number in _REPLAYED and not self._overwritten:
            self._replays = replays()
            of_arrays = [each for each in self._replays if not each.twice and is_overwritten(each, step.caller())]
            self._overwritten = [overwritten(each, step.number, step.caller()) for each in of_arrays[:1]]
        if step.number == _MEMBERS:
            self._findings += one_for_all(step.optimizers, step.number, step.caller())
        if step.number == _STORED:
            self._stored = stored()
        elif self._stored and step.number <= _MOST_LOOKS:
            self._look_at_data(step.number)
        if step.number == _KEPT:
            self._differences = differences(step.caller())
        if self._differences and not self._anchors:
            self._anchors = own_anchor(self._differences, step.optimizers, step.number, step.caller())
        if step.number == _KEPT:
            self._kept = kept(step.caller())
        if self._kept and not self._aliased:
            self._aliased = aliased(self._kept, step.optimizers, step.number)

    def _still_shared(self, step: int, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Tell of the state that had a gradient's memory some steps before, and still has the same."""
        ids = {id(each) for each in optimizers}
        for each in self._state:
            optimizer = each.optimizer()
            if optimizer is not None and id(optimizer) in ids and each in shared_state(optimizer):
                self._findings.append(told_shared(each, optimizer, step))
                break
        self._state = []

    def _look_at_data(self, step: int) -> None:
        for each in self._stored:
            times = self._changed.get(id(each), 0) + 1 if each.has_changed() else 0
            self._changed[id(each)] = times
            if times == _ENOUGH:
                self._findings.append(changed_data(each, step))
                self._stored = []
                return

    @property
    def findings(self) -> list[Finding]:
        """What was seen; of states that are kept first."""
        return [*self._aliased, *self._anchors, *self._findings, *self._overwritten]


class Tying(Sign):
    """Asks the first loss for parameters that a class ties, before any step: later, what was one has moved apart."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def audited(self, audit: Audit) -> None:
        if not audit.number and not self._found and audit.report.graph is not None:
            self._found = [replace(each, since=1) for each in untied(audit.report.graph, audit.site[0])]
