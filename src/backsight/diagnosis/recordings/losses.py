"""The losses of a recording: their values, where one rose, and since when one is lost."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

import numpy as np
from numpy.typing import NDArray

from backsight.diagnosis.wording import listed
from backsight.runs import Run, loss_names

Marked = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Steps, in order, and values."""

FEWEST = 50
"""Values of a loss before anything is said of how it went."""

_SHOWN = 4

_RISE = 10.0
"""How many times its median a loss is after it rose."""

_RECENT, _USUAL, _FEWEST_BEFORE = 20, 100, 10
"""Values among which a rise is looked for, values before it whose median is what is usual, and how few of them do."""


@dataclass(frozen=True)
class Rise:
    """Where a loss rose and stayed high: `place` among its values, and the last step before."""

    place: int
    step: int
    last_low: int
    low: float
    high: float

    @property
    def is_jump(self) -> bool:
        """Whether it rose within one recorded step."""
        return self.high > _RISE * abs(self.low)


def rise(marked: Marked, end: int) -> Rise | None:
    """Return where a loss rose to a multiple of its median, among the last values before a step; None if it did not.

    All values from there on are as high, so that one bad batch is no rise.
    """
    steps, values = marked[0][marked[0] < end], marked[1][marked[0] < end]
    if not np.isfinite(values).all():
        return None
    for k in range(max(_FEWEST_BEFORE, len(values) - _RECENT), len(values)):
        usual = float(np.median(values[max(0, k - _USUAL) : k]))
        if usual > 0 and values[k - 1] <= _RISE * usual < values[k:].min():
            return Rise(k, int(steps[k]), int(steps[k - 1]), float(values[k - 1]), float(values[k]))
    return None


def losses(run: Run) -> dict[str, Marked]:
    """Return the tags that are losses and numbers, by rank where there are several."""
    found: dict[str, Marked] = {}
    for rank in run.ranks:
        tags = run.numbers(rank)
        for name in loss_names(run, tags):
            found[name if run.world == 1 else f"{name} of rank {rank}"] = tags[name]
    return found


def named(names: list[str]) -> str:
    if names == ["loss"]:
        return "The loss"
    return f"The {'loss' if len(names) == 1 else 'losses'} {listed([repr(name) for name in names], 3)}"


def rate_of(run: Run) -> float | None:
    """Return the highest learning rate that the optimizers had; None if none is known."""
    held = [values for name, (_, values) in run.numbers().items() if name.split(" (")[0].split(" ")[-1] == "lr"]
    return max((float(values.max()) for values in held if np.isfinite(values).all()), default=0.0) or None


def is_lost(marked: Marked) -> int | None:
    """Return the step from which on a loss is not finite, if it never is again.

    One that comes back was waiting for its first value, or is only known now and then; one that has always been
    infinite is the best of no epochs so far.
    """
    steps, values = marked
    broken = ~np.isfinite(values)
    if not broken.any():
        return None
    first = int(np.argmax(broken))
    if not broken[first:].all() or (first == 0 and not np.isnan(values).any()):
        return None
    return int(steps[first])


def before(marked: Marked, since: int) -> str:
    """Return the last values before a step; of a loss that jumped shortly before, from where it did."""
    steps, values = marked
    held = [f"{value:.4g}" for value in values[steps < since].tolist()]
    risen = rise(marked, since)
    if risen is None:
        return ", ".join(held[-_SHOWN:])
    high = held[risen.place :]
    shown = high if len(high) <= _SHOWN else [high[0], "…", *high[1 - _SHOWN :]]
    return f"{held[risen.place - 1]} at step {risen.last_low}, then {', '.join(shown)}"


def what(marked: Marked, since: int) -> str:
    """Return what a lost loss is."""
    return "NaN" if isnan(marked[1][marked[0] >= since][0]) else "infinite"
