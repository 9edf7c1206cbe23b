"""Which steps are recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from backsight.recording._torch import as_the_program
from backsight.recording.arguments import given, whole
from backsight.recording.cost import Cost

SHARE = 0.1
"""How much of the time of a training recording may take, where nobody says how many steps."""

FREE = 0.25
"""Seconds of recording that no share is kept of: a short run is recorded whole."""

SPARSEST = 2**20


@dataclass(frozen=True)
class Schedule:
    """Every so many steps, and all of the first ones; or those that a function chooses; or as many as time allows.

        Schedule(every=50, first=10)
        Schedule(every=lambda step: step.bit_count() == 1)
        Schedule(every="auto")

    Raises:
        TypeError: if `every` is neither a whole number, "auto", nor a function of the step.
        ValueError: if `every` is less than 1 or `first` less than 0.
    """

    every: int | Literal["auto"] | Callable[[int], bool] = 1
    first: int = 0

    def __post_init__(self) -> None:
        auto = isinstance(self.every, str) and self.every == "auto"
        if isinstance(self.every, bool) or not (isinstance(self.every, int) or auto or callable(self.every)):
            expected = 'every must be a whole number, "auto" or a function of the step'
            raise TypeError(f"{expected}, not {given(self.every)}: omit it to record every step.")
        if isinstance(self.every, int):
            whole("every", self.every, 1, "omit it to record every step; disarm() records none")
        whole("first", self.first, 0, "omit it to treat the first steps like all others")

    def described(self) -> dict[str, object]:
        """Return the schedule as plain data."""
        if self.every == "auto":
            return {"every": "auto", "share": SHARE, "first": self.first}
        return {"every": self.every if isinstance(self.every, int) else "chosen by a function", "first": self.first}


class Pace:
    """A schedule at work. `every="auto"` becomes a power of two, which follows what recording costs.

    A step whose turn it is while recording is above its share is not recorded, and then one step in twice as many is;
    well below its share, one in half as many. So the share holds for the whole training, whatever its steps are like.
    """

    def __init__(self, schedule: Schedule, cost: Cost):
        self._schedule, self._cost = schedule, cost
        self.adapts = schedule.every == "auto"
        self.every: int | None = schedule.every if isinstance(schedule.every, int) else 1 if self.adapts else None
        """One step in how many is recorded now; None where a function chooses."""

    def __call__(self, step: int) -> bool:
        """Whether this step is recorded; to be asked once, when it begins."""
        if step < self._schedule.first:
            return True
        if self.every is None:
            assert callable(self._schedule.every)
            with as_the_program():
                return bool(self._schedule.every(step))
        if step % self.every:
            return False
        return not self.adapts or self._afforded(self.every)

    def due(self, step: int) -> int:
        """Return the first step from this one on that may be recorded, so that those before need not be asked about."""
        if step < self._schedule.first or self.every is None:
            return step
        return step + -step % self.every

    def _afforded(self, every: int) -> bool:
        allowed = FREE + SHARE * self._cost.elapsed()
        if self._cost.spent > allowed:
            self.every = min(every * 2, SPARSEST)
            return False
        if self._cost.spent < allowed / 4:
            self.every = max(1, every // 2)
        return True
