"""The losses that a training was marked with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from backsight.runs import Run, loss_names

Marked = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Steps, in order, and values."""


def losses(run: Run) -> dict[str, Marked]:
    """Return the tags that are losses and numbers, by rank where there are several."""
    found: dict[str, Marked] = {}
    for rank in run.ranks:
        tags = run.numbers(rank)
        for name in loss_names(run, tags):
            found[name if run.world == 1 else f"{name} of rank {rank}"] = tags[name]
    return found


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
