"""What recording has cost a training so far."""

from __future__ import annotations

from time import perf_counter

CALL = 4e-6
"""Seconds that a hook costs beside what it does: a module with hooks goes another way than one without."""


class Cost:
    """Seconds spent on recording: in hooks, in the training's own threads, and in the thread that writes."""

    __slots__ = ("_began", "spent")

    def __init__(self) -> None:
        self._began = perf_counter()
        self.spent = 0.0

    def add(self, seconds: float) -> None:
        """Count a hook that took so long."""
        self.spent += seconds + CALL

    def elapsed(self) -> float:
        """Return the seconds since recording began, recording included."""
        return perf_counter() - self._began
