"""Whether the graphs of some steps stay alive: then it is looked for what keeps them."""

from __future__ import annotations

import mmap
import threading
import weakref
from collections import Counter
from itertools import pairwise
from typing import Any

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.live import Leaks
from backsight.launch.sign import Sign, key_of
from backsight.tape import keeps_metadata

_STEPS = 8
"""Steps after which graphs are not gone, where they are kept; windows of some losses are shorter."""

_LONG = 32
"""Steps that may have some validations in them, whose losses are kept one by one."""

_GROWN = 16 << 20
"""Bytes by which a process has to grow, while its steps double, for graphs to be looked for."""

_MOST = 32
"""Nodes of a step that are marked: not only a loss may be kept, but what is computed beside it."""

_KEY = "backsight"


class _Mark:
    """Lives as long as the node whose metadata hold it."""

    __slots__ = ("__weakref__",)


class Keeping(Sign):
    """Marks nodes of the first steps, and of those that are looked at again, and follows the live graphs if these marks
    are still there when the steps are over.

    To look at live graphs takes a tenth of a second, to look whether a mark is there nothing. Where several threads
    train, the graph of one is alive while another steps, and to look at it may crash the process: nothing is done then.
    """

    def __init__(self) -> None:
        self._marks: dict[int, list[weakref.ref[_Mark]]] = {}
        self._leaks: Leaks | None = None
        self._steps = self._began = 0
        self._thread: int | None = None
        self._several = False
        self._sizes: list[int] = []
        self._made: Counter[int] = Counter()

    def again(self) -> None:
        """Mark nodes of the next steps, too."""
        self._began = self._steps
        self._marks.clear()

    def made(self, node: Any) -> None:
        """Note a node of this step's graph; those of another thread's live beyond the steps of this one."""
        ended = self._several or self._leaks is not None or self._steps >= self._began + _LONG
        if ended or not keeps_metadata or self._thread not in (None, threading.get_ident()):
            return
        marks = self._marks.setdefault(self._steps, [])
        if len(marks) < _MOST:
            mark = _Mark()
            node.metadata[_KEY] = mark
            marks.append(weakref.ref(mark))

    def stepped(self, optimizer: torch.optim.Optimizer) -> None:
        """Note a step of an optimizer, in the thread that made it, whichever that is."""
        this = threading.get_ident()
        self._thread = self._thread or this
        self._several |= this != self._thread
        if self._several:
            self._leaks = None
            return
        self._steps += 1
        if self._leaks is not None:
            self._leaks.stepped(optimizer)
            return
        self._made[key_of(optimizer)] += 1
        if self._steps - self._began in (_STEPS, _LONG):
            old = [marks for step, marks in self._marks.items() if step < self._steps - 1]
            kept = sum(any(ref() is not None for ref in marks) for marks in old)
            long = self._steps == self._began + _LONG
            if kept > 1 and (long or 2 * kept >= len(old)):
                self._leaks = Leaks(self._made)
            if long:
                self._marks.clear()
        elif self._steps > _LONG and not self._steps & (self._steps - 1) and self._grows():
            self._leaks = Leaks(self._made)

    def _grows(self) -> bool:
        """Whether the process has grown in each of the last two stretches, in which its steps have doubled."""
        self._sizes = [*self._sizes, _memory()][-3:]
        return len(self._sizes) == 3 and all(b - a > _GROWN for a, b in pairwise(self._sizes))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was still growing when it was looked at last."""
        return self._leaks.findings if self._leaks is not None else ()


def _memory() -> int:
    """Return the memory that the process has now, in bytes, and what it has on a device; of a system without /proc, 0.

    The most that it has had so far would tell nothing of one that begins with more than it needs.
    """
    try:
        with open("/proc/self/statm", "rb") as file:
            resident = int(file.read().split()[1]) * mmap.PAGESIZE
    except (OSError, ValueError, IndexError):
        resident = 0
    device = torch.cuda.memory_allocated() if torch.cuda.is_initialized() else 0  # type: ignore[no-untyped-call]
    return resident + device
