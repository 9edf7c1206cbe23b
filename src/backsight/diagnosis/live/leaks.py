"""Looks at the live graphs of a training, some steps apart: what grows at each of them is a leak."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.live.census import works_elsewhere
from backsight.diagnosis.live.graphs import Held, LiveGraphs, graphs
from backsight.snapshot import groups

if TYPE_CHECKING:
    from backsight.diagnosis.live.culprit import Told

LOOKS = (2, 4, 6, 8)
"""The steps of an optimizer after which is looked first; then each time that their number has doubled."""

_NEEDED = 3
"""Looks that have to agree."""

_MOST = 4
"""Optimizers whose steps are followed: after those of another one, other graphs are alive."""

Holder = tuple[str, str, str]


@dataclass(frozen=True)
class Look:
    """What was alive after so many steps."""

    step: int
    held: dict[Holder, Held]


@dataclass(frozen=True)
class Leak:
    """A variable that held more at each of the last looks, and the oldest of it all the time.

    `steps` are those of the looks, `graphs` and `nodes` what it held after each; `bytes` is what a step adds.
    """

    held: Held
    steps: tuple[int, ...]
    graphs: tuple[int, ...]
    nodes: tuple[int, ...]
    bytes: float

    @property
    def is_one_graph(self) -> bool:
        """Whether it is one graph that grows, and not their number."""
        return self.graphs[-1] == self.graphs[0]

    def rate(self, counts: Sequence[int]) -> float:
        """Return by how much a step grows what was counted after each look, in the last stretch."""
        return (counts[-1] - counts[-2]) / (self.steps[-1] - self.steps[-2])


class Leaks:
    """Follows the optimizer steps of a program, and knows what grows; in ten thousand steps it looks fifteen times."""

    def __init__(self, before: Mapping[int, int] | None = None) -> None:
        """before: how many steps each optimizer made that nobody followed, by the identity of its groups."""
        self._before = before or {}
        self._series: dict[int, _Series] = {}

    def stepped(self, optimizer: torch.optim.Optimizer) -> None:
        """To be called after each step of an optimizer, in the thread that made it."""
        key = id(groups(optimizer))  # shared with what wraps it
        series = self._series.get(key)
        if series is None or series.optimizer() is None:
            if len(self._series) >= _MOST:
                return
            series = self._series[key] = _Series(weakref.ref(optimizer), self._before.get(key, 0))
        series.stepped()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was still growing at the last look, each holder once, the largest first."""
        found = {holder: told for series in self._series.values() for holder, told in series.told.items()}
        return tuple(found.values())


class _Series:
    """The looks after the steps of one optimizer."""

    def __init__(self, optimizer: weakref.ref[torch.optim.Optimizer], before: int):
        self.optimizer, self._before = optimizer, before
        self.told: dict[Holder, Finding] = {}
        self._sums: dict[Holder, Told] = {}
        self._anew: dict[Holder, Finding] = {}
        self._steps = 0
        self._looks: list[Look] = []

    def stepped(self) -> None:
        self._steps += 1
        due = self._steps in LOOKS or (self._steps > LOOKS[-1] and not self._steps & (self._steps - 1))
        if due and not works_elsewhere():
            self._look(graphs())

    def _look(self, live: LiveGraphs) -> None:
        from backsight.diagnosis.live.culprit import told

        self._looks = [
            *self._looks,
            Look(self._before + self._steps, {each.newest.holder: each for each in live.held}),
        ][-_NEEDED:]
        found = told(grown(self._looks))  # while its frames are there
        now = {each.leak.held.newest.holder: each for each in found}
        held, before = self._looks[-1].held, self._looks[-2].step if len(self._looks) > 1 else 0
        for holder, each in self._sums.items():
            if holder not in now and holder in held and held[holder].first > each.leak.held.newest.last:
                self._anew.setdefault(holder, each.begun_anew(before))
        self._sums |= {holder: each for holder, each in now.items() if each.sums}
        self.told = self._anew | {holder: each.finding for holder, each in now.items()}


def grown(looks: Sequence[Look]) -> list[Leak]:
    """Return what has grown from each look to the next while its oldest operation stayed, the largest first."""
    if len(looks) < _NEEDED:
        return []
    leaks = []
    for holder, last in looks[-1].held.items():
        series = [held for look in looks if (held := look.held.get(holder)) is not None]
        nodes = [held.nodes for held in series]
        if len(series) < len(looks) or any(held.first != last.first for held in series):
            continue
        if all(before < after for before, after in pairwise(nodes)):
            between = looks[-1].step - looks[-2].step
            leaks.append(
                Leak(
                    held=last,
                    steps=tuple(look.step for look in looks),
                    graphs=tuple(len(held.graphs) for held in series),
                    nodes=tuple(nodes),
                    bytes=(last.bytes - series[-2].bytes) / between,
                )
            )
    return sorted(leaks, key=lambda leak: (-leak.held.bytes, -leak.held.nodes))
