"""BS310, BS311: a loss ended no lower than it began, or rose again; and since when a loss is lost."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isnan

import numpy as np
from numpy.typing import NDArray

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.quiet import SMALL, USUAL
from backsight.diagnosis.recordings.recording import Recording, rule, run_again
from backsight.diagnosis.recordings.rows import Rows
from backsight.diagnosis.wording import counted, listed, warning
from backsight.runs import Run, loss_names

Marked = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Steps, in order, and values."""

FEWEST = 50
"""Values of a loss before anything is said of how it went."""

_SHOWN = 4

_RISE = 10.0
"""How many times its median a loss is after it rose."""

_RECENT, _USUAL, _FEWEST_BEFORE = 20, 100, 10
"""Values among which a rise is looked for, values before it whose median is what is usual, and how few of them do."""


@dataclass(frozen=True)
class Rise:
    """Where a loss rose and stayed high: `place` among its values, and the last step before."""

    place: int
    step: int
    last_low: int
    low: float
    high: float

    @property
    def is_jump(self) -> bool:
        """Whether it rose within one recorded step."""
        return self.high > _RISE * abs(self.low)


def rise(marked: Marked, end: int) -> Rise | None:
    """Return where a loss rose to a multiple of its median before a step, and stayed, so that one bad batch is none."""
    steps, values = marked[0][marked[0] < end], marked[1][marked[0] < end]
    if not np.isfinite(values).all():
        return None
    for k in range(max(_FEWEST_BEFORE, len(values) - _RECENT), len(values)):
        usual = float(np.median(values[max(0, k - _USUAL) : k]))
        if usual > 0 and values[k - 1] <= _RISE * usual < values[k:].min():
            return Rise(k, int(steps[k]), int(steps[k - 1]), float(values[k - 1]), float(values[k]))
    return None


def losses(run: Run) -> dict[str, Marked]:
    """Return the tags that are losses and numbers, by rank where there are several."""
    found: dict[str, Marked] = {}
    for rank in run.ranks:
        tags = run.numbers(rank)
        for name in loss_names(run, tags):
            found[name if run.world == 1 else f"{name} of rank {rank}"] = tags[name]
    return found


def named(names: list[str]) -> str:
    if names == ["loss"]:
        return "The loss"
    return f"The {'loss' if len(names) == 1 else 'losses'} {listed([repr(name) for name in names], 3)}"


def rate_of(run: Run) -> float | None:
    """Return the highest learning rate that the optimizers had; None if none is known."""
    held = [values for name, (_, values) in run.numbers().items() if name.split(" (")[0].split(" ")[-1] == "lr"]
    return max((float(values.max()) for values in held if np.isfinite(values).all()), default=0.0) or None


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


def before(marked: Marked, since: int) -> str:
    """Return the last values before a step; of a loss that jumped shortly before, from where it did."""
    steps, values = marked
    held = [f"{value:.4g}" for value in values[steps < since].tolist()]
    risen = rise(marked, since)
    if risen is None:
        return ", ".join(held[-_SHOWN:])
    high = held[risen.place :]
    shown = high if len(high) <= _SHOWN else [high[0], "…", *high[1 - _SHOWN :]]
    return f"{held[risen.place - 1]} at step {risen.last_low}, then {', '.join(shown)}"


def what(marked: Marked, since: int) -> str:
    """Return what a lost loss is."""
    return "NaN" if isnan(marked[1][marked[0] >= since][0]) else "infinite"


# BS310: a loss ended no lower than it began, or hardly.


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
    def fell_between(self) -> bool:
        """Whether it was much lower at a time, and rose from there: BS311 judges that, or another task began there."""
        n, begun = len(self.first), float(np.median(self.first))
        lowest = min(float(np.median(self.values[k : k + n])) for k in range(n, len(self.values) - n + 1, n))
        return bool(self.exploded is None and self.values.min() >= 0 and lowest < (1 - _FALL) * begun)

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

    A note: the losses of a game, or of a policy, need not fall. So nothing is said where one of several does, nor where
    the only one takes both signs, as a policy's does, or was much lower meanwhile. Where the updates are negligible, or
    every loss exploded, it is a warning. A single loss that falls by little, with a learning rate that could be higher,
    is a note.
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
    elif not any(each.fell_between or each.values.min() < 0 < each.values.max() for each in every.values()):
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


# BS311: a loss fell, rose again, and ended far above its best.


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
