"""BS309: a loss is NaN or infinite, and stays so."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.losses import before, is_lost, losses, what
from backsight.diagnosis.recordings.non_finite import lasting_since
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.wording import counted


@rule("BS309")
def lost_loss(recording: Recording) -> Iterator[Finding]:
    """What backward() was called on, and tags with "loss" in their name.

    One that becomes finite again was only waiting for its value. One that was lost with a tensor, or after it, is told
    with that tensor, by BS301.
    """
    lost = {name: since for name, each in losses(recording.run).items() if (since := is_lost(each)) is not None}
    cause = lasting_since(recording) if lost else None
    for name, since in lost.items():
        if cause is not None and cause <= since:
            continue
        marked = losses(recording.run)[name]
        count, finite = int((marked[0] >= since).sum()), before(marked, since)
        yield Finding(
            "BS309",
            "error",
            f"The loss {name!r} is {what(marked, since)} from step {since} on.",
            (
                f"Before: {finite}. It stays so to the end, for {counted(count, 'step')}."
                if finite
                else f"It was never finite in {counted(count, 'step')}.",
            ),
            "All recorded tensors are finite then, so check the loss function: log(0), a division by 0, or an empty "
            "batch.",
        )
