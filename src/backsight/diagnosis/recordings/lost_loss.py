"""BS309: a loss is NaN or infinite, and stays so."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.marks import is_lost, losses
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.wording import counted


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
            "log(0), a "
            "division by 0, or an empty batch.",
        )
