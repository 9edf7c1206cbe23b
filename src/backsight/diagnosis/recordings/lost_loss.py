"""BS309: a loss is NaN or infinite, and stays so."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

import numpy as np
from numpy.typing import NDArray

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.wording import counted
from backsight.runs import Run, loss_names


@rule("BS309")
def lost_loss(recording: Recording) -> Iterator[Finding]:
    """What backward() was called on, and tags with "loss" in their name.

    One that becomes finite again was only waiting for its value.
    """
    for name, (steps, values) in losses(recording.run).items():
        since = is_lost((steps, values))
        if since is None:
            continue
        before = [f"{value:.4g}" for value in values[steps < since][-4:].tolist()]
        after = values[steps >= since].tolist()
        what = "NaN" if isnan(after[0]) else "infinite"
        yield Finding(
            "BS309",
            "error",
            f"The loss {name!r} is {what} from step {since} on.",
            (
                f"Before: {', '.join(before)}. After that it was not finite again in {counted(len(after), 'step')}."
                if before
                else f"It was never finite in {counted(len(after), 'step')}.",
            ),
            "If there is a BS301 finding, it names the tensor that caused it. Otherwise, check the loss function: "
            "log(0), a division by 0, or an empty batch.",
        )


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
