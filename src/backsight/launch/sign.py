"""A sign of a training, which is followed from step to step; and what it may be told of: steps, audits, calls."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from backsight.diagnosis import Finding, Report, Site
from backsight.naming.roots import is_library, is_ours
from backsight.snapshot import groups
from backsight.tape import Living


@dataclass(slots=True)
class Course:
    """How far an optimizer is: its own steps, and the last step of the run that was one of them."""

    optimizer: weakref.ref[torch.optim.Optimizer]
    steps: int = 0
    last: int = 0


@dataclass(slots=True)
class Model:
    """A model that was called in training, and those of its modules that know two modes."""

    model: weakref.ref[torch.nn.Module]
    modal: tuple[weakref.ref[torch.nn.Module], ...]
    thread: int
    """The thread that called it first."""


@dataclass(slots=True)
class Step:
    """A step that an optimizer has just made, in the thread that is followed."""

    optimizer: torch.optim.Optimizer
    key: int
    """Stands for the optimizer while it is alive."""
    steps: int
    """How many steps of its own it has made."""
    number: int
    """How many steps there were of all optimizers."""
    courses: Living[Course]
    called: Sequence[Model]
    news: bool = False
    """To be set by a sign that has changed: then it is worth a closer look what happens now."""

    def caller(self) -> FrameType:
        """Return the innermost frame of the user's."""
        return caller()

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Those that have made a step, and are alive."""
        return stepping(self.courses)

    def stepping(self, since: int) -> list[torch.optim.Optimizer]:
        """Return the optimizers that have made a step since another, and are alive."""
        return stepping(self.courses, since)

    @property
    def models(self) -> Iterable[torch.nn.Module]:
        """Those that were called, and are alive."""
        return (model for each in self.called if (model := each.model()) is not None)


@dataclass
class Audit:
    """An audit of a loss, after so many optimizer steps."""

    site: Site
    roots: Any
    report: Report
    steps: int
    is_late: bool
    """Whether the audits of the first steps are over, and this is one of a later look."""
    number: int
    """How many steps there were of the optimizers that are followed."""
    courses: Living[Course]

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Those that have made a step, and are alive."""
        return stepping(self.courses)

    def stepping(self, since: int) -> list[torch.optim.Optimizer]:
        """Return the optimizers that have made a step since another, and are alive."""
        return stepping(self.courses, since)

    def leaves(self, finding: Finding) -> list[torch.Tensor]:
        """Return the leaves that a finding of the audit is about."""
        graph = self.report.graph
        leaves = [leaf.tensor() for leaf in graph.leaves if leaf.node in finding.nodes] if graph is not None else []
        return [each for each in leaves if each is not None]


class Sign:
    """Something about a training. Who follows one says what to be told of, by the methods that it has.

    Of each step, little may be asked: attributes of Python objects, and no value that a device holds.
    """

    _found: Any = ()
    """Findings, in a row or by what they are about."""

    def each_step(self, step: Step) -> None:
        """Note a step of any optimizer."""

    def doubled(self, step: Step) -> None:
        """Note the first step of an optimizer, and each after which it has made twice as many: 1, 2, 4, 8 and so on."""

    def run_doubled(self, step: Step) -> None:
        """Note the same of the steps of all optimizers; after `doubled`, and before `each_step`."""

    def returned(self, module: torch.nn.Module, given: Any, output: Any) -> None:
        """Note that a module that no other has called returned something with a graph."""

    def audited(self, audit: Audit) -> None:
        """Note an audit of a loss, from within its backward."""

    @property
    def findings(self) -> Iterable[Finding]:
        """What holds now, or held to the end of what is gone."""
        return self._found.values() if isinstance(self._found, dict) else self._found

    def told(self, known: Sequence[Finding]) -> Iterable[Finding]:
        """Return what to tell beside what the signs before this one do."""
        return self.findings


def stepping(courses: Living[Course], since: int = 0) -> list[torch.optim.Optimizer]:
    """Return the optimizers that are alive and have made a step, or one since another."""
    held = (course.optimizer() for _, course in courses.items() if course.last >= since)
    return [each for each in held if each is not None]


def caller() -> FrameType:
    """Return the innermost frame of the user's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (is_ours(frame.f_code.co_filename) or is_library(frame.f_code.co_filename)):
        frame = frame.f_back
    return frame


def key_of(optimizer: torch.optim.Optimizer) -> int:
    """Return what stands for an optimizer while it is alive."""
    return id(groups(optimizer))


def site(frame: FrameType) -> Site:
    """Return the line at which a frame is."""
    return frame.f_code.co_filename, frame.f_lineno
