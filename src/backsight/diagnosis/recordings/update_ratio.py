"""BS307: updates are far too large, or far too small, for the weights that they change."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backsight.diagnosis.finding import Finding, Severity
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.recordings.rows import STEADY, Rows

USUAL = "between 1e-4 and 1e-2"
LARGE = 1e-1
HUGE = 0.5
SMALL = 1e-6

_Ratio = tuple[float, str]


@rule("BS307")
def update_ratio(recording: Recording) -> Iterator[Finding]:
    """The norm of the update over the norm of the weight, median over the steps; needs the tap "update".

    A decade above the usual range is a note, and so are two decades below it: small updates may be meant, as at the end
    of a schedule. Updates of half the weight are a warning. Biases and other vectors are left out: many begin at 0.
    """
    ratios = sorted(_ratios(recording))
    large = [ratio for ratio in ratios if ratio[0] > LARGE][::-1]
    small = [ratio for ratio in ratios if ratio[0] < SMALL]
    if large:
        severity: Severity = "warning" if large[0][0] > HUGE else "note"
        yield _finding(severity, "large", large, len(ratios), "Lower the learning rate, or warm it up.")
    if small:
        fix = "Raise the learning rate, or find out why the gradients are so small. Nothing to do at the end of a run."
        yield _finding("note", "small", small, len(ratios), fix)


def _finding(severity: Severity, what: str, found: list[_Ratio], of: int, fix: str) -> Finding:
    shown = ", ".join(f"{name} {ratio:.2g}" for ratio, name in found[:4])
    more = f" and {len(found) - 4} more" if len(found) > 4 else ""
    return Finding(
        "BS307",
        severity,
        f"Updates are very {what} for {len(found)} of {of} weight {'matrix' if of == 1 else 'matrices'}.",
        (f"Update norm / weight norm, median over the steps (usually {USUAL}): {shown}{more}.",),
        fix,
    )


def _ratios(recording: Recording) -> Iterator[_Ratio]:
    weights = recording.rows("weight")
    for name, update in recording.rows("update").items():
        weight = weights.get(name)
        if weight is not None and weight.is_matrix and (ratio := _median(weight, update.last_calls)) is not None:
            yield ratio, name


def _median(weight: Rows, update: Rows) -> float | None:
    """Return the median over the steps in which there was an update and a weight to be updated."""
    _, at_weight, at_update = np.intersect1d(weight["step"], update["step"], return_indices=True)
    held, moved = weight["l2"][at_weight], update["l2"][at_update]
    known = (held > 0) & (moved > 0) & np.isfinite(held) & np.isfinite(moved)
    return float(np.median(moved[known] / held[known])) if known.sum() >= STEADY else None
