"""BS310: a loss ended no lower than it began, or hardly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.losses import FEWEST, losses, named, rate_of
from backsight.diagnosis.recordings.recording import Recording, run_again
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.recordings.risen import risen_again
from backsight.diagnosis.recordings.update_ratio import SMALL, USUAL
from backsight.diagnosis.wording import counted

_STEADY = 0.01
"""A share of the first loss: by less it has not fallen."""

_LITTLE = 0.1
"""A share of the first loss: by less, while it is still falling, it falls slowly; by less after an explosion, it has
not fallen."""

_ERRORS = 2.0
"""How many standard errors two medians differ by before one is lower."""

_EXPLODED = 10.0
"""How many times the loss before it a loss is that explodes."""

_ERROR_OF_MEDIAN = 1.858
"""The standard error of a median, in median absolute deviations over the root of the number of values."""

_BEGINNING = 64
"""Values that are the first ones at most: in a tenth of a long run a loss may have fallen as far as it can."""

_AIM = 1e-3
"""What share of the weights an update changes where the learning rate is neither low nor high."""

_GREATEST = 1.0
"""A learning rate that nobody should be advised to use."""


@dataclass(frozen=True)
class _Course:
    """A loss, its first values before it exploded, if it did, and its last ones."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def tenth(self) -> int:
        return len(self.values) // 10

    @property
    def exploded(self) -> int | None:
        """Where it first is a multiple of all values before."""
        before = np.maximum.accumulate(np.abs(self.values))[:-1]
        above = np.flatnonzero(self.values[1:] > _EXPLODED * before)
        return int(above[0]) + 1 if len(above) and before[0] > 0 else None

    @property
    def is_ruined(self) -> bool:
        """Whether it exploded where it can only be lost: a loss of either sign may pass through zero."""
        return self.exploded is not None and bool(self.values.min() >= 0)

    @property
    def first(self) -> NDArray[np.float64]:
        exploded = self.exploded
        begun = min(self.tenth, _BEGINNING)
        return self.values[: begun if exploded is None else min(begun, exploded)]

    @property
    def last(self) -> NDArray[np.float64]:
        return self.values[-self.tenth :]

    @property
    def fall(self) -> float:
        return float(np.median(self.first) - np.median(self.last))

    @property
    def has_fallen(self) -> bool:
        error = _ERROR_OF_MEDIAN * np.hypot(*(_deviation(each) / len(each) ** 0.5 for each in (self.first, self.last)))
        share = _STEADY if self.exploded is None else _LITTLE
        return bool(self.fall > max(_ERRORS * error, share * abs(np.median(self.first))))

    @property
    def falls_slowly(self) -> bool:
        """Whether it has fallen by little, and as much in its second half as in its first."""
        begun = float(np.median(self.first))
        middle = float(np.median(self.values[len(self.values) // 2 :][: self.tenth]))
        still = 3 * (middle - float(np.median(self.last))) > self.fall
        return self.exploded is None and self.fall < _LITTLE * begun and still

    def told(self) -> str:
        at = self.exploded
        if at is not None:
            high = int(np.argmax(self.values))
            rose = f"jumped from {self.values[at - 1]:.4g} to {self.values[at]:.4g} at step {self.steps[at]}"
            peak = f", was {self.values[high]:.4g} at step {self.steps[high]}," if high != at else ""
            ended = f"ended at {np.median(self.last):.4g} (median of the last {len(self.last)} values)"
            return f"It {rose}{peak} and {ended}, no better than it began."
        low = int(np.argmin(self.values))
        return (
            f"{np.median(self.first):.4g} over the first {len(self.first)} values, {np.median(self.last):.4g} over the "
            f"last {len(self.last)} (medians); the lowest is {self.values[low]:.4g}, at step {self.steps[low]}."
        )


def _deviation(values: NDArray[np.float64]) -> float:
    return float(np.median(np.abs(values - np.median(values))))


@rule("BS310")
def loss_that_does_not_fall(recording: Recording) -> Iterator[Finding]:
    """Every loss of the run is at its end what it was at its beginning, or higher, as far as its noise lets one say.

    A note: the losses of a game, or of a policy, need not fall. So nothing is said where one of several does. Where the
    updates are negligible, or every loss exploded, it is a warning. A single loss that falls by little, with
    a learning rate that could be higher, is a note.
    """
    every = {name: _Course(*each) for name, each in losses(recording.run).items() if len(each[1]) >= FEWEST}
    if not every or not all(np.isfinite(each.values).all() for each in every.values()):
        return
    if risen_again(recording):
        return  # BS311 tells it
    rate, ratio = rate_of(recording.run), _ratio(recording)
    if any(each.has_fallen for each in every.values()):
        if len(every) == 1 and rate and ratio and ratio[0] < _AIM / 2 and next(iter(every.values())).falls_slowly:
            yield _slow(*next(iter(every.items())), rate, ratio)
        return
    one = len(every) == 1
    facts = [each.told() if one else f"{name}: {each.told()}" for name, each in every.items()]
    title = f"{named(list(every))} did not fall."
    exploded = [int(each.steps[each.exploded]) for each in every.values() if each.exploded is not None]
    if exploded:
        high = f"The learning rate{f', {rate:.4g},' if rate else ''} is probably too high"
        fix = f"{high}: try a tenth of it, warm it up, or clip gradients."
        is_grave = all(each.is_ruined for each in every.values())
        since = min(exploded) if is_grave else None
        yield Finding("BS310", "warning" if is_grave else "note", title, tuple(facts), fix, since=since)
    elif ratio is not None and ratio[0] < SMALL:
        yield Finding("BS310", "warning", title, (*facts, _moved(ratio, rate)), _raised(rate, ratio[0]))
    else:
        yield Finding("BS310", "note", title, tuple(facts), _searched(recording))


def _slow(name: str, course: _Course, rate: float, ratio: tuple[float, int]) -> Finding:
    share = course.fall / float(np.median(course.first))
    title = f"{named([name])} fell by only {share:.1%}, and is still falling."
    return Finding("BS310", "note", title, (course.told(), _moved(ratio, rate)), _raised(rate, ratio[0]))


def _ratio(recording: Recording) -> tuple[float, int] | None:
    """Return what share of the weights an update changed, in the median, and of how many steps."""
    held = recording.run.numbers().get("update_ratio")
    known = held[1][np.isfinite(held[1])] if held is not None else np.empty(0)
    return (float(np.median(known)), len(known)) if len(known) else None


def _moved(ratio: tuple[float, int], rate: float | None) -> str:
    by = f" with a learning rate of {rate:.4g}" if rate else ""
    return (
        f"An update changes the weights by {ratio[0]:.2g} of their norm{by} (median of {counted(ratio[1], 'step')}; "
        f"usually {USUAL})."
    )


def _raised(rate: float | None, ratio: float) -> str:
    wanted = rate * _AIM / ratio if rate and ratio else None
    if wanted is None or wanted > _GREATEST:
        return "Raise the learning rate, or find out why the gradients are so small."
    return f"Raise the learning rate: try about {wanted:.1g}."


def _searched(recording: Recording) -> str:
    """Say how to find out; a program that ran under `backsight run` was looked at for faults."""
    watched = "program" in recording.run.config
    again = "in the model, the loss or the data" if watched else f"with `{run_again(recording.run)}`"
    return (
        f"Train on one batch alone. If the loss does not fall there either, look for a fault {again}. If it does, try "
        "other learning rates, and check that inputs and labels belong together."
    )
