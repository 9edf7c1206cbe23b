"""BS310: a loss ended no lower than it began."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.losses import Marked, losses
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.wording import listed

_FEWEST = 50
"""Values of a loss before anything is said of how it went."""

_STEADY = 0.01
"""A share of the first loss: by less it has not fallen."""

_ERRORS = 2.0
"""How many standard errors two means differ by before one is lower."""


@rule("BS310")
def loss_that_does_not_fall(recording: Recording) -> Iterator[Finding]:
    """Every loss of the run is at its end what it was at its beginning, or higher, as far as its noise lets one say.

    A note: the losses of a game, or of a policy, need not fall. So nothing is said where one of several does.
    """
    every = {name: each for name, each in losses(recording.run).items() if len(each[1]) >= _FEWEST}
    if not every or any(not np.isfinite(values).all() or _has_fallen(values) for _, values in every.values()):
        return
    names = listed([repr(name) for name in every], 3)
    one = len(every) == 1
    yield Finding(
        "BS310",
        "note",
        f"The {'loss' if one else 'losses'} {names} did not fall.",
        tuple(_course(name if not one else "", each) for name, each in every.items()),
        "Train on one batch alone. If the loss does not fall there either, look for a fault: `backsight run train.py`. "
        "If it does, try other learning rates, and check that inputs and labels belong together.",
    )


def _has_fallen(values: NDArray[np.float64]) -> bool:
    first, last = _ends(values)
    error = np.sqrt(first.var() / len(first) + last.var() / len(last))
    return bool(first.mean() - last.mean() > max(_ERRORS * error, _STEADY * abs(first.mean())))


def _ends(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The first and the last tenth."""
    tenth = len(values) // 10
    return values[:tenth], values[-tenth:]


def _course(name: str, marked: Marked) -> str:
    steps, values = marked
    first, last = _ends(values)
    low = int(np.argmin(values))
    return (
        f"{f'{name}: ' if name else ''}{first.mean():.4g} on average over the first {len(first)} values, "
        f"{last.mean():.4g} over the last {len(last)}; the lowest is {values[low]:.4g}, at step {steps[low]}."
    )
