"""One statistic of many tensors over the steps: the first picture of a training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backsight.runs.catalogue import Catalogue, metric_of
from backsight.runs.coarse import STRETCHES, a_step
from backsight.runs.derived import derivation
from backsight.runs.gathering import Query, coarse, values
from backsight.runs.rank import Rank
from backsight.runs.schema import Columns

MOST_ROWS = 1_500_000
"""So many rows are read at once; where there are more, coarse ones are read instead."""

_SUMS = frozenset(("l2", "norm", "m2", "count", "zeros"))
"""What adds up over steps: a cell shows it as a typical step of its column has it."""


@dataclass(frozen=True, eq=False, repr=False)
class Heatmap:
    """One statistic of several tensors over the steps.

    tensors: (name, kind), in the order of the rows.
    stretch: how many steps a column is about; steps: [columns], the first step of each.
    values: [tensors, columns], NaN where nothing was recorded or nothing was finite.
    nonfinite: [tensors, columns], how many elements were NaN or infinite, in all steps of the column together.
    """

    tensors: tuple[tuple[str, str], ...]
    stat: str
    stretch: int
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    nonfinite: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"<Heatmap of {self.stat}, {len(self.tensors)} tensors × {len(self.steps)} columns>"


def heatmap(
    ranks: dict[int, Rank], known: Catalogue, query: Query, stat: str, steps: NDArray[np.int64], columns: int
) -> Heatmap:
    """Return the statistic of the tensors of a query in at most so many columns of equal width.

    steps: those that were recorded, and that the query wants.
    """
    tensors = query.tensors
    if not len(steps) or not tensors:
        none = np.zeros((len(tensors), 0))
        return Heatmap(tensors, stat, 1, np.zeros(0, "<i8"), none, none.astype("<i8"))
    measured = stat not in known.metrics and derivation(stat) is not None
    stretch, level = _stretches(steps, len(tensors), columns, measured)
    first = int(steps[0]) // stretch * stretch
    width = (int(steps[-1]) - first) // stretch + 1
    rows = coarse(ranks, known, query, level, stretch) if measured else _metric(ranks, known, query, stat, stretch)
    cell = _row_of(tensors, known)[rows["tensor"]], (rows["step"] - first) // stretch
    found, bad = np.full((len(tensors), width), np.nan), np.zeros((len(tensors), width), "<i8")
    inside = (cell[0] >= 0) & (cell[1] >= 0) & (cell[1] < width)
    at = cell[0][inside], cell[1][inside]
    found[at] = (_derived(rows, stat) if measured else rows["value"])[inside]
    if measured:
        bad[at] = (rows["nans"] + rows["infs"])[inside]
    return Heatmap(tensors, stat, stretch, first + stretch * np.arange(width, dtype="<i8"), found, bad)


def _stretches(steps: NDArray[np.int64], tensors: int, columns: int, measured: bool) -> tuple[int, int]:
    """Return how many steps a column is to be about, and a row of those that are read for it."""
    span = int(steps[-1]) - int(steps[0]) + 1
    apart = (span - 1) / max(len(steps) - 1, 1)
    wanted = max(math.ceil(span / columns), math.ceil(apart), 1)
    if not measured:
        return wanted, 1
    level = 1
    for each in STRETCHES:
        if tensors * span / max(level, apart, 1) > MOST_ROWS:
            level = each
    return math.ceil(wanted / level) * level, level


def _row_of(tensors: Sequence[tuple[str, str]], known: Catalogue) -> NDArray[np.int64]:
    """Return, by position in the catalogue, the row of each tensor, or -1."""
    rows = {key: row for row, key in enumerate(tensors)}
    return np.array([rows.get(key, -1) for key in known.tensors], "<i8")


def _derived(rows: Columns, stat: str) -> NDArray[np.float64]:
    derive = derivation(stat)
    assert derive is not None
    return derive(a_step(rows) if stat in _SUMS else rows).astype("<f8")


def _metric(ranks: dict[int, Rank], known: Catalogue, query: Query, stat: str, stretch: int) -> Columns:
    """Return the values of a metric, in each column the mean."""
    metric, element = (stat, -1) if stat in known.metrics else metric_of(stat)
    rows = values(ranks, known, query, metric, element, ("tensor", "step"))
    keys, group = np.unique(np.stack((rows["tensor"], rows["step"] // stretch * stretch)), axis=1, return_inverse=True)
    group = group.reshape(-1)
    there = ~np.isnan(rows["value"])
    total = np.bincount(group[there], rows["value"][there], keys.shape[1])
    count = np.bincount(group[there], minlength=keys.shape[1])
    mean = np.where(count > 0, total, np.nan) / np.maximum(count, 1)
    return {"tensor": keys[0], "step": keys[1], "value": mean}
