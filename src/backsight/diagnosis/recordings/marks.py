"""The losses that a training was marked with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from backsight.runs import Run

Marked = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Steps, in order, and values."""


def losses(run: Run) -> dict[str, Marked]:
    """Return the tags that go by the name of a loss and are numbers, by rank where there are several."""
    return {
        name if run.world == 1 else f"{name} of rank {rank}": marked
        for rank in run.ranks
        for name, marked in run.tags(rank)[0].items()
        if "loss" in name.lower()
    }


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
