"""The vital signs of a training: facts of every optimizer step that cost next to nothing, over the whole run.

Attributes of Python objects are read, and the values of one small tensor that no device holds; but at a few spaced
steps no device is waited for. A sign that changes is worth a closer look, and what holds at the end is told with the
step since which it does.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import isfinite
from types import CodeType, FrameType
from typing import Any

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.dropped import lost_in_step
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.misplaced import misplaced
from backsight.diagnosis.used_up import used_up
from backsight.diagnosis.vital import (
    BATCH_NORMS,
    DROPOUTS,
    attribute_alone,
    counts_batches,
    drives_another,
    faded,
    left_frozen,
    made_anew,
    schedules_of,
    shrinking,
    untrained_mode,
)
from backsight.launch.drifting import Drifting
from backsight.launch.piling import Piling
from backsight.launch.thawed import Thawed
from backsight.launch.zeros import Zeros
from backsight.snapshot import groups
from backsight.tape import Living, is_captured, modules_in, parameters_in
from backsight.tape.saved import is_readable
from backsight.tracing.changes import version
from backsight.tracing.steps import parameters

SILENT = 3
"""Steps in a row without any gradient after which an optimizer is said to get none."""

FADED = 1e-6
"""A learning rate so many times smaller than the largest before moves nothing."""

LOW = 0.01
"""A learning rate so many times smaller than the largest before is low; that most of a training has it is a fault if
the schedule is stepped once a batch, and so may count batches for epochs."""

_SHORTEST = 16
"""Steps with a low rate."""

_LASTING = 10
"""Steps that a rate has to have been lost for: schedules end at 0."""

_DECAYED = 16
"""The step of an optimizer at which its weight decay is looked at."""

_ANEW = 4
"""Optimizers that have taken one another's place."""

_LOOKS = (1, 10, 100, 1_000, 10_000, 100_000)
"""Steps of an optimizer at which it is asked whether its gradients are zeros: there a device is waited for."""

_SMALL = 16
"""Values of a parameter that are read at each step: a microsecond. A NaN in one gradient is mostly one in all."""

_NUMBERS: dict[torch.dtype, Any] = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}

_READ = 2
"""The step of an optimizer at which the text around it is read."""

_MOST_READ = 8
_FIRST = 4
"""The step of an optimizer at which the schedules of the one that it has replaced are looked at first."""

_MOST_COUNTS = 8
"""Numbers of gradients that are news: experts that idle in turn make many."""

_MOST_MODULES = 64
_MOST_MODELS = 8
_MODAL = (*DROPOUTS, *BATCH_NORMS)


@dataclass(slots=True)
class _Course:
    """What is known of one optimizer: its steps, and since which of the run's steps something holds."""

    optimizer: weakref.ref[torch.optim.Optimizer]
    steps: int = 0
    last: int = 0
    silent: int = 0
    silent_since: int = 0
    zeros: int = 0
    """Steps in a row in which all gradients were zeros, from a look on."""
    counts: list[int] = field(default_factory=list)
    """How many of its parameters had a gradient, each number that has occurred."""
    at: int = 0
    """Which of its parameters had a gradient when one was looked for last."""
    peak: float = 0.0
    faded_since: int = 0
    low_since: int = 0
    """The first of its own steps in a row with a low rate."""
    early: Finding | None = None
    trained: set[int] = field(default_factory=set)
    """The ids of the parameters that had a gradient when their number of steps had doubled."""
    frozen: set[int] = field(default_factory=set)
    """The ids of those of which was told that they stay frozen."""
    small: weakref.ref[torch.Tensor] | None = None
    """Its smallest parameter in the memory of this machine, whose values cost nothing to look at."""


@dataclass(slots=True)
class _Mode:
    """A model with dropout or batch normalization, and since which step none of that is in training mode."""

    model: weakref.ref[torch.nn.Module]
    modal: tuple[weakref.ref[torch.nn.Module], ...]
    trained: bool = False
    off_since: int = 0
    confirmed: int = 0
    thread: int = field(default_factory=threading.get_ident)
    """The thread that called it first."""


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


@dataclass(slots=True)
class _Succession:
    """An optimizer that trains what another one did, which has stopped; and how far the schedules of that one were."""

    old: weakref.ref[torch.optim.Optimizer]
    new: weakref.ref[torch.optim.Optimizer]
    since: int
    epochs: dict[int, int] = field(default_factory=dict)
    finding: Finding | None = None


class VitalSigns:
    """Follows the signs of every optimizer of a program, and the modes of its models."""

    def __init__(self) -> None:
        self.step = 0
        self.news = False
        """Whether a sign has changed since somebody looked."""
        self._courses: Living[_Course] = Living()
        self._modes: list[_Mode] = []
        self._called: list[_Mode] = []
        self._lines: list[_Line] = []
        self._faded: dict[int, tuple[Finding, int, int]] = {}
        self._off: dict[int, Finding] = {}
        self._lost: dict[int, int] = {}
        self._alone: dict[str, Finding] = {}
        self._shrinking: dict[int, Finding] = {}
        self._frozen: dict[int, Finding] = {}
        self._successions: list[_Succession] = []
        self._read: dict[CodeType, Finding | None] = {}
        self._drifting = Drifting()
        self._piling = Piling()
        self.zeros = Zeros()
        self._thawed = Thawed()
        self._used_up: dict[str, tuple[Finding, Callable[[], bool]]] = {}

    def called(self, model: torch.nn.Module) -> None:
        """Note that a model that no other has called returned something with a graph."""
        mode = next((each for each in self._modes if each.model() is model), None)
        if mode is None and len(self._modes) < _MOST_MODELS:
            modal = [m for _, m in modules_in(model) if isinstance(m, _MODAL) and _acts(m)][:_MOST_MODULES]
            mode = _Mode(weakref.ref(model), tuple(map(weakref.ref, modal)))
            self._modes.append(mode)
        if mode is not None and mode.modal and mode not in self._called:
            self._called.append(mode)

    def stepped(self, optimizer: torch.optim.Optimizer, caller: Any) -> None:
        """Note a step that `optimizer` has just made; `caller()` returns the frame of the program that made it."""
        if not self.step:  # what other threads have called is not of this training
            self._modes = [each for each in self._modes if each.thread == threading.get_ident()]
        self.step += 1
        key = id(groups(optimizer))
        course = self._courses.at(key)
        if course is None:
            course = _Course(weakref.ref(optimizer))
            self._courses.put(key, optimizer, course)
            course.small = _smallest(optimizer)
            self._renewed(optimizer, caller)
            self._succeeds(optimizer)
            self.news |= self.step > SILENT  # something else is trained from here on
        course.steps += 1
        course.last = self.step
        if self._successions and course.steps >= _FIRST and not course.steps & (course.steps - 1):
            self._schedules(optimizer, caller)
        if course.steps >= _FIRST and not course.steps & (course.steps - 1):
            self._freezes(optimizer, course, caller)
            for mode in self._modes:
                if (model := mode.model()) is not None:
                    norms = (m for ref in mode.modal if (m := ref()) is not None and isinstance(m, BATCH_NORMS))
                    self._drifting.look(model, norms, self.step, caller)
            models = (model for mode in self._modes if (model := mode.model()) is not None)
            self._piling.look(optimizer, models, self.step, caller)
        if course.steps >= _FIRST and self._thawed.is_due(self.step):
            models = (model for mode in self._modes if (model := mode.model()) is not None)
            self._thawed.look(models, optimizer, self._stepping, self.step, caller)
        if course.steps == _READ:
            self._look_around(caller(), optimizer)
        self._values(key, course)
        self._count(optimizer, course)
        self._hear(optimizer, course)
        self.zeros.stepped(optimizer, course.steps, self.step, caller)
        self._rate(optimizer, course, caller)
        if course.steps == _DECAYED:
            found = shrinking(optimizer, self.step - _DECAYED + 1, caller())
            if found is not None:
                self._shrinking[key] = found
        for mode in self._modes:
            self._mode(mode)
            if not self.step & (self.step - 1):  # at each doubling of the steps
                self._attribute(mode, caller)
        for line in self._lines:
            if line.optimizer() is optimizer:
                line.steps += 1
                held = line.parameter()
                line.version = version(held) if held is not None else -1
        if self._called:
            self._confirm(optimizer, caller)

    @property
    def deaf(self) -> list[tuple[torch.optim.Optimizer, int]]:
        """The optimizers that have got no gradient for some steps, each with the step since which."""
        found = ((c.optimizer(), c) for _, c in self._courses.items())
        return [(o, c.silent_since) for o, c in found if o is not None and max(c.silent, c.zeros) >= SILENT]

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Those that have made a step, and are alive."""
        return [held for _, c in self._courses.items() if (held := c.optimizer()) is not None]

    @property
    def lost_since(self) -> int | None:
        """The step since which weights are NaN, where it is known."""
        return min(self._lost.values(), default=None)

    @property
    def findings(self) -> Iterator[Finding]:
        """What holds now, or held to the end of what is gone."""
        for found, since, last in self._faded.values():
            if last - since >= max(_LASTING, last // 10) - 1:
                yield found
        told = {found.title for found, _, _ in self._faded.values()}
        courses = [c for key, c in self._courses.items() if key not in self._faded]
        for early in (c.early for c in courses if c.early is not None and c.steps >= 2 * c.low_since):
            if early.title not in told:
                yield early
        yield from self._off.values()
        yield from (line.finding for line in self._lines if line.finding is not None)
        yield from self._alone.values()
        yield from self._shrinking.values()
        yield from self._frozen.values()
        yield from self._drifting.findings
        yield from self._piling.findings
        yield from self.zeros.findings
        yield from self._thawed.findings
        yield from (each.finding for each in self._successions if each.finding is not None)
        yield from (found for found in self._read.values() if found is not None)
        yield from (found for found, is_over in self._used_up.values() if is_over())

    def _stepping(self, since: int) -> set[int]:
        """Return the ids of what the optimizers hold that have made a step since another."""
        held = [o for _, c in self._courses.items() if c.last >= since and (o := c.optimizer()) is not None]
        return {id(p) for each in held for p in parameters(each)}

    def _look_around(self, frame: FrameType, optimizer: torch.optim.Optimizer) -> None:
        """Read the function of the program that makes a step, and the step if it is the program's, once."""
        if (lost := lost_in_step(optimizer)) is not None:
            self._alone.setdefault(lost.title, replace(lost, since=1))
        if frame.f_code not in self._read and len(self._read) < _MOST_READ:
            self._read[frame.f_code] = misplaced(frame)
            found = used_up(frame, self.step)
            if found is not None:
                self._used_up.setdefault(found[0].title, found)

    def _count(self, optimizer: torch.optim.Optimizer, course: _Course) -> None:
        """Look closer when another number of parameters gets a gradient than ever before, but for the first steps."""
        count = sum(p.grad is not None for p in parameters(optimizer))
        if count not in course.counts and len(course.counts) < _MOST_COUNTS:
            course.counts.append(count)
            self.news |= course.steps > SILENT

    def _values(self, key: int, course: _Course) -> None:
        held = course.small() if course.small is not None else None
        number = _NUMBERS.get(held.dtype) if held is not None and held.is_cpu and held.is_contiguous() else None
        place = held.data_ptr() if held is not None and number is not None else 0
        if held is None or number is None or not place:  # moved to a device since, or given back
            return
        # Read in place, by no operation of PyTorch's: a profiler of the program's would show one in each step.
        values: list[float] = (number * min(held.numel(), _SMALL)).from_address(place)[:]
        if isfinite(sum(values)) or all(value == value for value in values):
            self._lost.pop(key, None)
        else:
            self._lost.setdefault(key, self.step)

    def _hear(self, optimizer: torch.optim.Optimizer, course: _Course) -> None:
        held = groups(optimizer)[0]["params"] if groups(optimizer) else []
        if course.at < len(held) and (gradient := held[course.at].grad) is not None:
            if course.zeros or course.steps in _LOOKS:
                course.zeros = course.zeros + 1 if _are_zeros(optimizer, gradient) else 0
                if course.zeros:
                    course.silent_since = course.silent_since or self.step
                    self.news |= course.zeros == SILENT
                    return
            course.silent = course.silent_since = 0
            return
        if course.silent > SILENT and course.steps & (course.steps - 1):
            course.silent += 1  # looked for again at each doubling of its steps
            return
        first = next((at for at, p in enumerate(parameters(optimizer)) if p.grad is not None), None)
        if first is not None:
            course.at, course.silent, course.silent_since = first, 0, 0
            return
        course.silent += 1
        if course.silent == 1:
            course.silent_since = self.step
        self.news |= course.silent == SILENT

    def _rate(self, optimizer: torch.optim.Optimizer, course: _Course, caller: Any) -> None:
        rate = 0.0
        for group in groups(optimizer):
            given = group.get("lr")
            if type(given) is not float and type(given) is not int:
                return  # a tensor's value would have to be waited for
            rate = max(rate, float(given))
        if rate > course.peak:
            course.peak = rate
        self._low(optimizer, course, rate, caller)
        key = id(groups(optimizer))
        if not course.peak or rate > FADED * course.peak:
            course.faded_since = 0
            self._faded.pop(key, None)
            return
        course.faded_since = course.faded_since or self.step
        told = self._faded.get(key)
        if told is not None:
            self._faded[key] = (told[0], told[1], self.step)
        elif self.step - course.faded_since == _LASTING - 1:
            found = faded(optimizer, course.steps, course.peak, rate, course.faded_since, caller())
            self._faded[key] = found, course.faded_since, self.step

    def _low(self, optimizer: torch.optim.Optimizer, course: _Course, rate: float, caller: Any) -> None:
        """Look, once most of the steps of an optimizer had a low rate, for a schedule that is stepped once a batch."""
        if rate > LOW * course.peak or not rate:
            course.low_since, course.early = 0 if rate else course.low_since, None if rate else course.early
            return
        course.low_since = course.low_since or course.steps
        if course.steps == 2 * max(course.low_since, _SHORTEST):
            course.early = counts_batches(optimizer, course.steps, course.peak, rate, course.low_since, caller())

    def _mode(self, mode: _Mode) -> None:
        model = mode.model()
        if model is None:
            return
        off = not model.__dict__.get("training", True)
        if not off:
            mode.trained = True
            mode.off_since = mode.confirmed = 0
            self._off.pop(id(mode), None)
        elif not mode.off_since:
            mode.off_since = self.step
            self.news |= mode.trained

    def _attribute(self, mode: _Mode, caller: Any) -> None:
        model = mode.model()
        found = attribute_alone(model, self.step, caller()) if model is not None else None
        if found is not None:
            self._alone.setdefault(found.title, found)

    def _confirm(self, optimizer: torch.optim.Optimizer, caller: Any) -> None:
        """Count a step of a model that was called with gradients, gets them, and is not in training mode."""
        held = {id(p) for p in parameters(optimizer) if p.grad is not None}
        for mode in list(self._called):
            model = mode.model()
            if model is None or not any(id(p) in held for p in parameters_in(model)):
                continue
            self._called.remove(mode)
            active = any((m := ref()) is not None and m.training for ref in mode.modal)
            if not mode.off_since or active:
                continue
            mode.confirmed += 1
            if mode.confirmed == SILENT:
                frame: FrameType = caller()
                found = untrained_mode(
                    model,
                    [type(m) for ref in mode.modal if (m := ref()) is not None],
                    mode.off_since,
                    mode.trained,
                    frame,
                )
                if found is not None:
                    self._off[id(mode)] = found

    def _succeeds(self, optimizer: torch.optim.Optimizer) -> None:
        """Note whose parameters a new optimizer has taken over."""
        held = {id(p) for p in parameters(optimizer)}
        for course in [each for _, each in self._courses.items()]:
            other = course.optimizer()
            if other is None or other is optimizer or len(self._successions) >= _MOST_MODELS:
                continue
            if any(id(p) in held for p in parameters(other)):
                self._successions.append(_Succession(course.optimizer, weakref.ref(optimizer), self.step))

    def _freezes(self, optimizer: torch.optim.Optimizer, course: _Course, caller: Any) -> None:
        """Look whether what was trained until the last doubling of the steps is frozen since."""
        held = parameters(optimizer)
        frozen = [p for p in held if id(p) in course.trained and not p.requires_grad]
        course.trained = {id(p) for p in held if p.requires_grad and p.grad is not None}
        key = id(groups(optimizer))
        found = left_frozen(optimizer, frozen, self.step, caller()) if frozen else None
        if found is not None:
            course.frozen = {id(p) for p in frozen}
            self._frozen[key] = found
        elif any(p.requires_grad for p in held if id(p) in course.frozen):
            self._frozen.pop(key, None)

    def _schedules(self, optimizer: torch.optim.Optimizer, caller: Any) -> None:
        """Look whether the schedules of an optimizer go on that another one has replaced."""
        for each in self._successions:
            old = each.old()
            course = self._courses.at(id(groups(old))) if old is not None else None
            if old is None or course is None or each.new() is not optimizer or each.finding is not None:
                continue
            if course.last >= each.since:
                continue  # both make steps
            for schedule in schedules_of(old):
                epoch = schedule.__dict__.get("last_epoch", 0)
                if epoch > each.epochs.setdefault(id(schedule), epoch):
                    each.finding = drives_another(schedule, optimizer, each.since, caller())

    def _renewed(self, optimizer: torch.optim.Optimizer, caller: Any) -> None:
        """Note an optimizer that takes the place of one that has trained the same parameters, left as they were."""
        held = groups(optimizer)[0]["params"] if groups(optimizer) else []
        if not held:
            return
        self._lines = [line for line in self._lines if line.parameter() is not None or line.finding is not None][-16:]
        first: torch.Tensor = held[0]
        for line in self._lines:
            if line.parameter() is not first or line.kind is not type(optimizer) or line.number != len(held):
                continue
            other = line.optimizer()
            untouched = version(first) - line.version <= 1  # this step has changed it once
            if other is optimizer or not untouched:
                line.renewed = 0
            else:
                line.renewed += 1
                if line.renewed == 1:
                    line.since = self.step
            line.optimizer = weakref.ref(optimizer)
            if line.renewed == _ANEW:
                line.finding = made_anew(optimizer, line.renewed, line.steps, line.since, caller())
            return
        self._lines.append(
            _Line(weakref.ref(first), version(first), type(optimizer), len(held), weakref.ref(optimizer))
        )


def _smallest(optimizer: torch.optim.Optimizer) -> weakref.ref[torch.Tensor] | None:
    found = [p for p in parameters(optimizer) if p.device.type == "cpu" and p.dtype in _NUMBERS and is_readable(p)]
    found = [p for p in found if p.layout == torch.strided and p.numel() and p.requires_grad]
    return weakref.ref(min(found, key=torch.Tensor.numel)) if found else None


def _are_zeros(optimizer: torch.optim.Optimizer, one: torch.Tensor) -> bool:
    """Whether all gradients are zeros; mostly it is enough to look at one."""
    if is_captured() or not is_zero(one):
        return False
    with torch.no_grad():
        return all(is_zero(p.grad) for p in parameters(optimizer) if p.grad is not None)


def _acts(module: torch.nn.Module) -> bool:
    """Whether a dropout drops anything."""
    return bool(module.__dict__.get("p", 1.0))
