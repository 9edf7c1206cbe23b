"""When a training is watched: as it begins, and whenever a new optimizer begins to train; not for ever."""

from __future__ import annotations

from collections.abc import Callable

STEPS = 100
"""Optimizer steps that are watched from the last new optimizer on. What fails, nearly always fails in the first few."""

CALLS = 20_000
"""Calls into PyTorch that are watched from the start, in all: about a sixth of a second. For the second optimizer it
is half of that, for the third a third: a sweep makes hundreds of them."""


LOOK = 3
"""Steps that are watched when it is looked again: at spaced steps, and when a vital sign has changed."""

_LOOKS = 32
"""Changes of vital signs that are looked at: more of them, as of a schedule of the program's own, are no news."""


def is_spaced(step: int) -> bool:
    """Whether a step is one of 300, 1,000, 3,000, 10,000 and so on: the cost of a look there does not show."""
    while step >= 1_000 and step % 10 == 0:
        step //= 10
    return step in (100, 300)


class Attention:
    """Calls `pause` when nothing new has come for a while, and `resume` with a number of calls when something has.

    To watch exactly costs some microseconds a call, of every step of a training that may take days.
    """

    def __init__(self, pause: Callable[[], None], resume: Callable[[int], None]) -> None:
        self._pause, self._resume = pause, resume
        self._news, self._since = 1, 0
        self._changes = 0
        self.paused = False

    def stepped(self, *, first: bool) -> None:
        """Note an optimizer step; `first`: of an optimizer that has made none before."""
        if first and self._since:
            self._news += 1
        self._since = 1 if first else self._since + 1
        if first and self.paused:
            self.paused = False
            self._resume(max(1, CALLS // self._news))
        elif self._since >= STEPS:
            self.spent()

    def look(self, *, change: bool = False) -> bool:
        """Watch some steps again, because it is time or there is a `change`; return whether that is done."""
        self._changes += change
        if not self.paused or (change and self._changes > _LOOKS):
            return not self.paused
        self.paused, self._since = False, STEPS - LOOK - 1
        self._resume(max(1, CALLS // (3 + self._changes)))
        return True

    def again(self) -> None:
        """Begin anew: what runs now is something else, as the next cell of a notebook is."""
        self._since = 1
        if self.paused:
            self.paused = False
            self._resume(CALLS)

    def spent(self) -> None:
        """Note that enough was seen."""
        if not self.paused:
            self.paused = True
            self._pause()
