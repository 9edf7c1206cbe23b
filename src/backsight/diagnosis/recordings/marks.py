"""The losses that a training was marked with."""

from __future__ import annotations

import math

from backsight.runs import Run

Marked = list[tuple[int, float]]
"""Steps and values, in order."""


def losses(run: Run) -> dict[str, Marked]:
    """Return the tags that go by the name of a loss and are numbers, by rank where there are several."""
    found: dict[str, Marked] = {}
    for rank in run.ranks:
        for name, (steps, values) in run.tags(rank)[0].items():
            if "loss" in name.lower():
                of = name if run.world == 1 else f"{name} of rank {rank}"
                found[of] = list(zip(steps.tolist(), values.tolist(), strict=True))
    return found


def is_lost(series: Marked) -> int | None:
    """Return the step from which on a loss is not finite, if it never is again.

    One that comes back was waiting for its first value, or is only known now and then; one that has always been
    infinite is the best of no epochs so far.
    """
    broken = [k for k, (_, value) in enumerate(series) if not math.isfinite(value)]
    if not broken or len(broken) != len(series) - broken[0]:
        return None
    if broken[0] == 0 and not any(math.isnan(value) for _, value in series):
        return None
    return series[broken[0]][0]
