"""BS311: a loss fell, rose again, and ended far above its best."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.losses import FEWEST, losses, named, rate_of
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.recordings.rows import Rows
from backsight.diagnosis.wording import warning

_LOST = 0.5
"""The share of what a loss had fallen by that it has lost again."""

_FALL = 0.25
"""The share of the first loss that it has to have fallen by before."""

_SURE = 5.0
"""How many standard errors apart two stretches are: the best is one of many, and chance alone makes one of them low."""

_FEWEST_EVALUATIONS, _STRETCH = 8, 3
"""Values of a loss that is only taken now and then, and how many of them are a stretch at least."""

_EVALUATES = re.compile(r"(?:^|[^a-z])(?:val|valid|validation|eval|evaluation|test|dev)(?:[^a-z]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class _Risen:
    """A loss in stretches of a tenth each, of which one is the best."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def length(self) -> int:
        return max(_STRETCH, len(self.values) // 10)

    @cached_property
    def best(self) -> int:
        """Where its best stretch begins."""
        begins = range(0, len(self.values) - self.length + 1, self.length)
        return min(begins, key=lambda k: float(np.median(self.values[k : k + self.length])))

    @property
    def since(self) -> int:
        """The last step of the best stretch."""
        return int(self.steps[self.best + self.length - 1])

    @property
    def levels(self) -> tuple[float, float, float]:
        """The medians of its first values, of its best stretch and of its last."""
        stretches = (
            self.values[:_STRETCH],
            self.values[self.best : self.best + self.length],
            self.values[-self.length :],
        )
        start, low, end = (float(np.median(each)) for each in stretches)
        return start, low, end

    @property
    def has_risen(self) -> bool:
        """Whether it fell by much, lost half of that again, and is not on its way down once more."""
        (start, low, end), values, n = self.levels, self.values, self.length
        before, after = values[: self.best + n], values[self.best :]
        return bool(
            values.min() >= 0
            and start - low > max(_FALL * start, _SURE * _error(before, _STRETCH, n))
            and end - low > max(_LOST * (start - low), _SURE * _error(after, n, n))
            and np.median(values[-2 * n : -n]) - end < 2 * _error(values[-2 * n :], n, n)
        )

    def told(self) -> str:
        start, low, end = self.levels
        return f"{start:.4g} at first, {low:.4g} at best, up to step {self.since}, and {end:.4g} at the end (medians)."


def _error(values: NDArray[np.float64], one: int, other: int) -> float:
    """Return the standard error of a difference of medians, of so many values each: by how far one is from the next."""
    apart = float(np.median(np.abs(np.diff(values))))
    return 1.31 * apart * math.sqrt(1 / one + 1 / other)


def risen_again(recording: Recording) -> dict[str, _Risen]:
    """Return the losses of a run, if all of them fell and rose again; nothing where that may be meant."""
    every = losses(recording.run)
    evaluated = {name for name, each in every.items() if _EVALUATES.search(name)}
    seen = {
        name: _Risen(*each)
        for name, each in every.items()
        if len(each[1]) >= (_FEWEST_EVALUATIONS if name in evaluated else FEWEST)
    }
    trained = [each for name, each in seen.items() if name not in evaluated]
    if not trained or not all(np.isfinite(each.values).all() and each.has_risen for each in seen.values()):
        return {}
    if _restarts(recording) or (len(trained) == len(seen) and not _is_given_the_same(recording, trained[0].since)):
        return {}
    return seen


@rule("BS311")
def loss_that_rose_again(recording: Recording) -> Iterator[Finding]:
    """Every loss of the run, those of evaluations too, fell and lost half of that again.

    One loss that does not is enough to say nothing: the training loss falls on where a model overfits, and one of two
    networks wins where the other loses. Nothing is said either where harder data may be the reason, as in a curriculum:
    what the model is given has changed, and no evaluation was recorded. Nor where a schedule raises the learning rate
    again, as one with warm restarts does.
    """
    seen = risen_again(recording)
    if not seen:
        return
    rate, best = rate_of(recording.run), min(each.since for each in seen.values())
    yield warning(
        "BS311",
        f"{named(list(seen))} fell and rose again.",
        tuple(each.told() if len(seen) == 1 else f"{name}: {each.told()}" for name, each in seen.items()),
        f"The learning rate{f', {rate:.4g},' if rate else ''} is probably too high: lower it, let it decay, or clip "
        f"gradients. The best weights are those of around step {best}.",
    )


def _restarts(recording: Recording) -> bool:
    """Whether a learning rate rises after it has fallen."""
    for name, (_, values) in recording.run.numbers().items():
        change = np.diff(values)
        falls, rises = np.flatnonzero(change < 0), np.flatnonzero(change > 0)
        if re.search(r"(?:^| )lr(?: \(|$)", name) and len(falls) and len(rises) and rises[-1] > falls[0]:
            return True
    return False


def _is_given_the_same(recording: Recording, since: int) -> bool:
    """Whether the models' own inputs are recorded, and after a step are as they were before."""
    roots = {each.root for each in recording.modules.values()}
    given = [rows for rows in recording.rows("input").values() if rows.tensor.module in roots]
    return bool(given) and all(_is_alike(rows, since) for rows in given)


def _is_alike(rows: Rows, since: int) -> bool:
    early = rows["step"] <= since
    for name in ("count", "mean", "l2", "max"):
        values, n = rows[name], int(early.sum())
        if min(n, len(values) - n) < _STRETCH:
            return False
        apart = abs(float(np.median(values[early]) - np.median(values[~early])))
        if apart > _SURE * _error(values, n, len(values) - n):
            return False
    return True
