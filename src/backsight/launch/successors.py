"""Optimizers that take the place of others: for good, with their schedules left behind, or again and again."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.schedules import drives_another, made_anew, schedules_of
from backsight.launch.sign import Sign, Step
from backsight.snapshot import groups
from backsight.tracing.changes import version
from backsight.tracing.steps import parameters

_ANEW = 4
"""Optimizers that have taken one another's place."""

_FIRST = 4
"""The step of an optimizer at which the schedules of the one that it has replaced are looked at first."""

_MOST = 8


@dataclass(slots=True)
class _Line:
    """Optimizers of one class that trained the same parameters one after the other."""

    parameter: weakref.ref[torch.Tensor]
    version: int
    kind: type
    number: int
    optimizer: weakref.ref[torch.optim.Optimizer]
    renewed: int = 0
    steps: int = 0
    finding: Finding | None = None
    since: int = 0


class Renewed(Sign):
    """Follows the optimizers that are made anew for parameters that nothing has changed meanwhile."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []

    def doubled(self, step: Step) -> None:
        if step.steps == 1:
            self._begins(step)

    def each_step(self, step: Step) -> None:
        for line in self._lines:
            if line.optimizer() is step.optimizer:
                line.steps += 1
                held = line.parameter()
                line.version = version(held) if held is not None else -1

    @property
    def findings(self) -> Iterator[Finding]:
        return (line.finding for line in self._lines if line.finding is not None)

    def _begins(self, step: Step) -> None:
        """Note an optimizer that takes the place of one that has trained the same parameters, left as they were."""
        optimizer = step.optimizer
        held = groups(optimizer)[0]["params"] if groups(optimizer) else []
        if not held:
            return
        self._lines = [line for line in self._lines if line.parameter() is not None or line.finding is not None][-16:]
        first: torch.Tensor = held[0]
        for line in self._lines:
            if line.parameter() is not first or line.kind is not type(optimizer) or line.number != len(held):
                continue
            untouched = version(first) - line.version <= 1  # this step has changed it once
            if line.optimizer() is optimizer or not untouched:
                line.renewed = 0
            else:
                line.renewed += 1
                if line.renewed == 1:
                    line.since = step.number
            line.optimizer = weakref.ref(optimizer)
            if line.renewed == _ANEW:
                line.finding = made_anew(optimizer, line.renewed, line.steps, line.since, step.caller())
            return
        new = weakref.ref(optimizer)
        self._lines.append(_Line(weakref.ref(first), version(first), type(optimizer), len(held), new))


@dataclass(slots=True)
class _Succession:
    """An optimizer that trains what another one did, which has stopped; and how far the schedules of that one were."""

    old: weakref.ref[torch.optim.Optimizer]
    new: weakref.ref[torch.optim.Optimizer]
    since: int
    epochs: dict[int, int] = field(default_factory=dict)
    finding: Finding | None = None


class Successions(Sign):
    """Looks whether the schedules of an optimizer go on that another one has replaced."""

    def __init__(self) -> None:
        self._successions: list[_Succession] = []

    def doubled(self, step: Step) -> None:
        if step.steps == 1:
            self._begins(step)
        for each in self._successions if step.steps >= _FIRST else ():
            if each.new() is step.optimizer and each.finding is None:
                self._look(each, step)

    @property
    def findings(self) -> Iterator[Finding]:
        return (each.finding for each in self._successions if each.finding is not None)

    def _begins(self, step: Step) -> None:
        """Note whose parameters a new optimizer has taken over."""
        held = {id(p) for p in parameters(step.optimizer)}
        for other in step.optimizers:
            if other is step.optimizer or len(self._successions) >= _MOST:
                continue
            if any(id(p) in held for p in parameters(other)):
                self._successions.append(_Succession(weakref.ref(other), weakref.ref(step.optimizer), step.number))

    def _look(self, each: _Succession, step: Step) -> None:
        old = each.old()
        if old is None or any(other is old for other in step.stepping(each.since)):
            return  # both make steps
        for schedule in schedules_of(old):
            epoch = schedule.__dict__.get("last_epoch", 0)
            if epoch > each.epochs.setdefault(id(schedule), epoch):
                each.finding = drives_another(schedule, step.optimizer, each.since, step.caller())
