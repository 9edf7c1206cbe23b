"""One number of one tensor over the steps, thinned so that no peak is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class Series:
    """Points of a series; every one of them was measured, none is an average.

    steps, values: [n], in the order of the steps.
    total: how many points there were before thinning; `missing` of them were NaN.
    """

    tensor: str
    kind: str
    stat: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    total: int
    missing: int

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        return f"<Series {self.kind} {self.tensor!r} {self.stat}, {len(self)} of {self.total} points>"


@dataclass(frozen=True, eq=False, repr=False)
class Histograms:
    """The histograms of one tensor by step.

    counts: [n, BINS], of the elements that were looked at; `sampled` says how many these were.
    negatives: [n, BINS], how many of `counts` are below zero. Where `signed`, [n], is false, nobody counted them.
    """

    tensor: str
    kind: str
    steps: NDArray[np.int64]
    counts: NDArray[Any]
    sampled: NDArray[np.int64]
    negatives: NDArray[Any]
    signed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        return f"<Histograms {self.kind} {self.tensor!r}, {len(self)} steps>"


def thinned(steps: NDArray[Any], values: NDArray[Any], points: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return at most `points` of the points: of each of equal stretches the least and the greatest value.

    The first and the last point stay as well. NaN is neither least nor greatest: it stays only where there is nothing
    else in its stretch.
    """
    if points < 4:
        raise ValueError(f"points must be at least 4 (first, last, min, max), not {points}.")
    if len(values) <= points:
        return steps, values
    stretches = (points - 2) // 2
    bounds = np.linspace(0, len(values), stretches + 1).astype("<i8")
    kept = np.concatenate((_at(np.fmin, values, bounds), _at(np.fmax, values, bounds), [0, len(values) - 1]))
    kept = np.unique(kept)
    return steps[kept], values[kept]


def _at(extreme: np.ufunc, values: NDArray[Any], bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of the first least, or greatest, value of each stretch."""
    starts = bounds[:-1]
    found = np.repeat(extreme.reduceat(values, starts), np.diff(bounds))
    hits = np.flatnonzero((values == found) | (np.isnan(found) & np.isnan(values)))
    return hits[np.searchsorted(hits, starts)]
