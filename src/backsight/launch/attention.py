"""When a training is watched: as it begins, and whenever a new optimizer begins to train; not for ever."""

from __future__ import annotations

from collections.abc import Callable

STEPS = 100
"""Optimizer steps that are watched from the last new optimizer on. What fails, nearly always fails in the first few."""

CALLS = 20_000
"""Calls into PyTorch that are watched from the start, in all: about a sixth of a second. For the second optimizer it
is half of that, for the third a third: a sweep makes hundreds of them."""


class Attention:
    """Calls `pause` when nothing new has come for a while, and `resume` with a number of calls when something has.

    To watch exactly costs some microseconds a call, of every step of a training that may take days.
    """

    def __init__(self, pause: Callable[[], None], resume: Callable[[int], None]) -> None:
        self._pause, self._resume = pause, resume
        self._news, self._since = 1, 0
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
