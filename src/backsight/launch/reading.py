"""What the text of a program and an exact watch of it tell once the training goes on, whatever its values are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import CodeType

from backsight.diagnosis import Finding
from backsight.diagnosis.aliased import own_backup
from backsight.diagnosis.drawn import disarranged, drawn_apart, drawn_in_part, seeded_again, used_up
from backsight.diagnosis.dropped import captured_for_good, dropped, lost_in_step, lost_writes, rebound
from backsight.diagnosis.misplaced import misplaced
from backsight.diagnosis.peculiar import peculiarities, summed_over_samples
from backsight.diagnosis.reordered import crossed, reordered
from backsight.diagnosis.stale_copies import taken_once, untrained_members
from backsight.diagnosis.unloaded import unloaded
from backsight.launch.sign import Sign, Step
from backsight.tracing import Watch, own_copies, repeated_writes, sightings

_READ = 2
"""The step of an optimizer at which the text around it is read."""

_MOST_READ = 8

_TAKEN = 32
"""The optimizer step at which it is looked for numbers that were taken from what is trained."""


_SEEDED = (8, 16, 32)
"""The optimizer steps at which it is asked whether the first ones drew the same numbers."""

_LOADERS = (4, 16, 64)
"""The optimizer steps at which it is looked for pairs that two loaders draw."""


class Updates(Sign):
    """Reads the step of each optimizer, if that is the program's, once."""

    def __init__(self) -> None:
        self._found: dict[str, Finding] = {}

    def doubled(self, step: Step) -> None:
        if step.steps == _READ and (lost := lost_in_step(step.optimizer)) is not None:
            self._found.setdefault(lost.title, replace(lost, since=1))


class Loads(Sign):
    """Reads, as each of the first optimizers begins, what was loaded before."""

    def __init__(self) -> None:
        self._found: dict[str, Finding] = {}
        self._looks = 0

    def doubled(self, step: Step) -> None:
        if step.steps == 1 and self._looks < _MOST_READ:
            self._looks += 1
            for each in unloaded(step.caller(), step.number):
                self._found.setdefault(each.title, each)


class Loops(Sign):
    """Reads each function of the program that makes a step, once."""

    def __init__(self) -> None:
        self._read: dict[CodeType, Finding | None] = {}
        self._used_up: dict[str, tuple[Finding, Callable[[], bool]]] = {}

    def doubled(self, step: Step) -> None:
        if step.steps != _READ:
            return
        frame = step.caller()
        if frame.f_code not in self._read and len(self._read) < _MOST_READ:
            self._read[frame.f_code] = misplaced(frame)
            found = used_up(frame, step.number)
            if found is not None:
                self._used_up.setdefault(found[0].title, found)

    @property
    def findings(self) -> Iterator[Finding]:
        yield from (found for found in self._read.values() if found is not None)
        yield from (found for found, is_over in self._used_up.values() if is_over())


class Taken(Sign):
    """Looks once for numbers that were taken from what is trained."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._found: list[Finding] = []

    def run_doubled(self, step: Step) -> None:
        if step.number == _TAKEN:
            self._found = taken_once(self._watch, step.optimizers)


class Watched(Sign):
    """Asks an exact watch, at the end, what single statements did."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._apart: list[Finding] = []
        self._rebound: list[Finding] = []
        self._seeded: Finding | None = None

    def run_doubled(self, step: Step) -> None:
        """Look while the functions that lead to a step run: for loaders that variables hold, and for seeds."""
        if step.number in _SEEDED and self._seeded is None:
            self._seeded = seeded_again(self._watch, step.caller())
        if step.number == _SEEDED[0]:
            self._rebound = list(rebound(step.caller()))
        if step.number in _LOADERS and not self._apart:
            self._apart = [*drawn_apart(self._watch), *drawn_in_part(step.caller())]

    def told(self, known: Sequence[Finding]) -> list[Finding]:
        watch = self._watch
        seen = sightings(watch)
        found = [*dropped(seen), *lost_writes(repeated_writes(watch)), *reordered(seen), *own_backup(own_copies(watch))]
        found += [*peculiarities(watch, known), *self._apart, *disarranged(watch), *untrained_members(watch)]
        found += summed_over_samples(watch)
        found += captured_for_good(watch)
        found += [each for each in self._rebound if each.source not in {other.source for other in known}]
        found += [self._seeded] if self._seeded is not None else []
        return [*found, *crossed(watch, [*known, *found])]
