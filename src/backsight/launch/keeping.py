"""Whether the graphs of the first steps stay alive: then it is looked for what keeps them."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.live import Leaks

_STEPS = 8
"""Steps after which none of the first graphs is gone, where they are kept; windows of some losses are shorter."""

_KEY = "backsight"


class _Mark:
    """Lives as long as the node whose metadata hold it."""

    __slots__ = ("__weakref__",)


class Keeping:
    """Marks a node of each of the first steps, and follows the live graphs if all of these marks are still there.

    To look at live graphs takes a tenth of a second, to look whether a mark is there nothing.
    """

    def __init__(self) -> None:
        self._marks: dict[int, weakref.ref[_Mark]] = {}
        self._leaks: Leaks | None = None
        self._steps = 0

    def made(self, node: Any) -> None:
        """Note a node of this step's graph."""
        if self._steps < _STEPS and self._steps not in self._marks:
            mark = _Mark()
            node.metadata[_KEY] = mark
            self._marks[self._steps] = weakref.ref(mark)

    def stepped(self, optimizer: torch.optim.Optimizer) -> None:
        """Note a step of an optimizer, in the thread that made it."""
        self._steps += 1
        if self._steps == _STEPS:
            old = [ref() is not None for step, ref in self._marks.items() if step < _STEPS - 1]
            if len(old) >= _STEPS // 2 and all(old):
                self._leaks = Leaks()
            self._marks.clear()
        elif self._leaks is not None:
            self._leaks.stepped(optimizer)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was still growing when it was looked at last."""
        return self._leaks.findings if self._leaks is not None else ()
