"""What was measured, and the little arithmetic by which parts of a tensor become the whole."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from backsight.runs import BINS, STATISTICS

Rows = NDArray[np.void]
Counts = NDArray[np.uint32]
Integers = NDArray[np.int64]
Parts = NDArray[np.float64]

FIELDS = STATISTICS.names or ()
WIDTH = len(FIELDS) + 1 + 2 * BINS
"""Numbers of a part: the statistics in the order of STATISTICS, how many elements were sampled, the histogram of the
numbers above zero, and that of those below."""


class Found(NamedTuple):
    """Rows; and if asked for histograms, how many of each are below zero, and how many elements were looked at."""

    rows: Rows
    histograms: Counts | None = None
    negatives: Counts | None = None
    sampled: Integers | None = None


class Late(Protocol):
    """Numbers that are still on their way from a device."""

    def arrived(self) -> tuple[list[int], Parts]:
        """Wait for them, and return the numbers of parts, those of a tensor together, and which tensor each is of."""
        ...


class Weight(NamedTuple):
    """How often the elements that were read count, and how many zeros were not among them."""

    copies: int
    zeros: int


class Measured:
    """The statistics of a list of tensors; row i belongs to tensor i.

    Those of tensors on another device are waited for when one of its properties is first looked at.
    """

    __slots__ = ("_found", "_late", "_weights", "skipped")

    def __init__(
        self,
        found: Found,
        skipped: dict[int, str],
        late: tuple[Late, ...] = (),
        weights: dict[int, Weight] | None = None,
    ) -> None:
        self._found = found
        self.skipped = skipped
        """The tensors that were not measured, by index, and why; their rows have a count of 0."""
        self._late = late
        self._weights = weights
        if weights and not late:
            self._settle()

    @property
    def rows(self) -> Rows:
        """A structured array of STATISTICS; mean, min and max are NaN where nothing is finite."""
        return self._settled().rows

    @property
    def histograms(self) -> Counts | None:
        """Counts of floor(log2|x|), [n, BINS], or None if none were asked for."""
        return self._settled().histograms

    @property
    def negatives(self) -> Counts | None:
        """How many of these are below zero, [n, BINS], or None as above."""
        return self._settled().negatives

    @property
    def sampled(self) -> Integers | None:
        """How many elements of each tensor the histogram looked at, or None as above."""
        return self._settled().sampled

    def _settled(self) -> Found:
        if self._late:
            self._settle()
        return self._found

    def _settle(self) -> None:
        with _SETTLING:
            for late in self._late:
                self._fill(*wholes(*late.arrived()))
            for index, weight in (self._weights or {}).items():
                self._weigh(index, weight)
            self._weights = None
            self._late = ()

    def _fill(self, indexes: list[int], numbers: Parts) -> None:
        """Put the numbers of tensors, a row each, where they belong."""
        rows, histograms, negatives, sampled = self._found
        of = dict(zip(FIELDS, numbers.T, strict=False))
        finite = of["count"] > of["nans"] + of["infs"]
        for name, column in of.items():
            rows[name][indexes] = column
        for name in ("mean", "min", "max"):  # adding 0.0 turns -0.0 into 0.0: which was met is a matter of order
            rows[name][indexes] = np.where(finite, of[name] + 0.0, np.nan)
        rows["m2"][indexes] = np.where(finite, of["m2"], 0.0)
        if histograms is not None and negatives is not None and sampled is not None:
            above, below = numbers[:, -2 * BINS : -BINS], numbers[:, -BINS:]
            histograms[indexes], negatives[indexes] = _saturated(above + below), _saturated(below)
            sampled[indexes] = numbers[:, len(FIELDS)]

    def _weigh(self, index: int, weight: Weight) -> None:
        rows, histograms, negatives, sampled = self._found
        row, copies, zeros = rows[index], weight.copies, weight.zeros
        if histograms is not None and negatives is not None and sampled is not None:
            histograms[index] = _saturated(histograms[index] * float(copies))
            negatives[index] = _saturated(negatives[index] * float(copies))
            seen, stored = int(sampled[index]), int(row["count"])
            # of the zeros that are not stored the histogram looks at as large a part as of the rest
            sampled[index] = seen * copies + (zeros if seen == stored else zeros * seen // stored)
        for name in ("count", "m2", "zeros", "nans", "infs"):
            row[name] *= copies
        if zeros:
            _add_zeros(row, zeros)


_SETTLING = threading.Lock()


def unmeasured(count: int, histogram: bool) -> Found:
    """Return what is found of so many tensors without elements."""
    rows: Rows = np.zeros(count, STATISTICS)
    for name in ("mean", "min", "max"):
        rows[name] = np.nan
    if not histogram:
        return Found(rows)
    histograms, negatives = np.zeros((2, count, BINS), np.uint32)
    return Found(rows, histograms, negatives, np.zeros(count, np.int64))


def wholes(indexes: list[int], parts: Parts) -> tuple[list[int], Parts]:
    """Return a row for each tensor, from those of its parts, which are one below the other."""
    starts = [at for at, index in enumerate(indexes) if not at or indexes[at - 1] != index]
    if len(starts) == len(parts):
        return indexes, parts
    rows = [[*joined(each), *each[:, len(FIELDS) :].sum(0)] for each in np.split(parts, starts[1:])]
    return [indexes[at] for at in starts], np.array(rows)


def joined(parts: Parts) -> tuple[float, ...]:
    """Return the row of a tensor from those of its parts: exactly what one pass over all of them would have found.

    T. Chan, G. Golub, R. LeVeque: Updating formulae and a pairwise algorithm for computing sample variances (1979).
    """
    of = dict(zip(FIELDS, parts.T, strict=False))
    count, zeros, nans, infs = (int(of[name].sum()) for name in ("count", "zeros", "nans", "infs"))
    of = {name: column[of["count"] > of["nans"] + of["infs"]] for name, column in of.items()}
    n = of["count"] - of["nans"] - of["infs"]
    if not len(n):
        return count, np.nan, 0.0, np.nan, np.nan, zeros, nans, infs
    with np.errstate(over="ignore"):
        first = of["mean"][0]  # apart from which the means of equal numbers are exactly 0
        mean = first + ((of["mean"] - first) * (n / n.sum())).sum()
        m2 = (of["m2"] + n * np.square(of["mean"] - mean)).sum()
    return count, mean, m2, of["min"].min(), of["max"].max(), zeros, nans, infs


def _saturated(counts: Any) -> Counts:
    """Counts as uint32; what does not fit is the largest that does."""
    saturated: Counts = np.minimum(counts, np.iinfo(np.uint32).max).astype(np.uint32)
    return saturated


def _add_zeros(row: Any, zeros: int) -> None:
    n = int(row["count"] - row["nans"] - row["infs"])
    mean = row["mean"] if n else 0.0
    row["m2"] += mean * mean * n * (zeros / (n + zeros))
    row["mean"] = mean * (n / (n + zeros))
    row["min"], row["max"] = np.fmin(row["min"], 0.0), np.fmax(row["max"], 0.0)
    row["count"] += zeros
    row["zeros"] += zeros
