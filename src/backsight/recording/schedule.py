"""Which steps are recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """Every so many steps, and all of the first ones; or those that a function chooses.

        Schedule(every=50, first=10)
        Schedule(every=lambda step: step.bit_count() == 1)

    Raises:
        TypeError: if `every` is neither a whole number nor a function of the step.
        ValueError: if `every` is less than 1 or `first` less than 0.
    """

    every: int | Callable[[int], bool] = 1
    first: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.every, bool) or not (isinstance(self.every, int) or callable(self.every)):
            raise TypeError(
                f"every has to be a whole number or a function of the step, not {type(self.every).__name__}."
            )
        if isinstance(self.every, int) and self.every < 1:
            raise ValueError(f"every has to be at least 1, and it is {self.every}; to record nothing, use disarm().")
        if isinstance(self.first, bool) or not isinstance(self.first, int):
            raise TypeError(f"first has to be a whole number, not {type(self.first).__name__}.")
        if self.first < 0:
            raise ValueError(f"first has to be at least 0, and it is {self.first}.")

    def __call__(self, step: int) -> bool:
        """Whether this step is recorded."""
        if step < self.first:
            return True
        if isinstance(self.every, int):
            return step % self.every == 0
        return bool(self.every(step))

    def due(self, step: int) -> int:
        """Return the first step from this one on that may be recorded, so that those before need not be asked about."""
        if step < self.first or not isinstance(self.every, int):
            return step
        return step + -step % self.every

    def described(self) -> dict[str, object]:
        """Return the schedule as plain data."""
        return {"every": self.every if isinstance(self.every, int) else "chosen by a function", "first": self.first}
