"""One statistic of many tensors over the steps: the first picture of a training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.runs.catalogue import Catalogue, metric_of
from backsight.runs.coarse import STRETCHES, a_step
from backsight.runs.derived import derivation
from backsight.runs.gathering import Query, coarse, values
from backsight.runs.rank import Rank
from backsight.runs.schema import Columns, joined

MOST_ROWS = 1_500_000
"""So many rows are read at once; where there are more, coarse ones are read instead."""

FEW_RANKS = 16
"""Ranks that are read for a picture as one is; of more, coarser rows are read, so that a thousand take seconds."""

ROWS_AT_ONCE = 1 << 18
"""So many rows are in memory at a time."""

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


def heatmaps(
    ranks: dict[int, Rank],
    known: Catalogue,
    query: Query,
    stats: Sequence[str],
    steps: NDArray[np.int64],
    columns: int,
) -> list[Heatmap]:
    """Return statistics of the tensors of a query, each in at most so many columns of equal width.

    steps: those that were recorded, and that the query wants.
    """
    measured = [stat for stat in stats if stat not in known.metrics and derivation(stat) is not None]
    read = len(ranks) if query.rank is None else 1
    grid = _Grid.over(query.tensors, known, steps, columns, len(measured) == len(stats), read)
    rows = _rows(ranks, known, query, grid, steps) if measured and grid.columns else None
    found = []
    for stat in stats:
        if stat in measured and rows is not None:
            bad = grid.filled(rows, rows["nans"] + rows["infs"], 0)
            found.append(grid.heatmap(stat, grid.filled(rows, _derived(rows, stat), np.nan), bad))
        else:
            values_ = _metric(ranks, known, query, stat, grid.stretch) if grid.columns else None
            held = grid.nothing if values_ is None else grid.filled(values_, values_["value"], np.nan)
            found.append(grid.heatmap(stat, held, np.zeros(held.shape, "<i8")))
    return found


@dataclass(frozen=True)
class _Grid:
    """The cells of a heatmap: `rows_of` is the row of each tensor of the catalogue, or -1."""

    tensors: tuple[tuple[str, str], ...]
    rows_of: NDArray[np.int64]
    first: int
    columns: int
    stretch: int
    level: int

    @classmethod
    def over(
        cls,
        tensors: tuple[tuple[str, str], ...],
        known: Catalogue,
        steps: NDArray[np.int64],
        columns: int,
        measured: bool,
        ranks: int,
    ) -> _Grid:
        """Return the cells for these tensors and recorded steps, of so many ranks."""
        rows = {key: row for row, key in enumerate(tensors)}
        rows_of = np.array([rows.get(key, -1) for key in known.tensors], "<i8")
        if not len(steps) or not tensors:
            return cls(tensors, rows_of, 0, 0, 1, 1)
        stretch, level = _stretches(steps, len(tensors) * max(1, ranks // FEW_RANKS), columns, measured)
        first = int(steps[0]) // stretch * stretch
        return cls(tensors, rows_of, first, (int(steps[-1]) - first) // stretch + 1, stretch, level)

    @property
    def nothing(self) -> NDArray[np.float64]:
        return np.full((len(self.tensors), self.columns), np.nan)

    def filled(self, rows: Columns, values: NDArray[Any], empty: float) -> NDArray[Any]:
        """Return the cells with a value for each row, and `empty` where there is none."""
        row, column = self.rows_of[rows["tensor"]], (rows["step"] - self.first) // self.stretch
        inside = (row >= 0) & (column >= 0) & (column < self.columns)
        found = np.full((len(self.tensors), self.columns), empty, values.dtype)
        found[row[inside], column[inside]] = values[inside]
        return found

    def heatmap(self, stat: str, values: NDArray[np.float64], nonfinite: NDArray[np.int64]) -> Heatmap:
        steps = self.first + self.stretch * np.arange(self.columns, dtype="<i8")
        return Heatmap(self.tensors, stat, self.stretch, steps, values, nonfinite)


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


def _rows(ranks: dict[int, Rank], known: Catalogue, query: Query, grid: _Grid, steps: NDArray[np.int64]) -> Columns:
    """Return coarse rows; where they are made of all rows, some columns are made after the other, to save memory."""
    if grid.level > 1 or (query.steps is not None and query.steps.step not in (None, 1)):
        return coarse(ranks, known, query, grid.level, grid.stretch)
    # A step of many ranks is merged some ranks at a time.
    at_once = max(1, ROWS_AT_ONCE // len(query.tensors))
    starts = np.unique(steps[::at_once] // grid.stretch * grid.stretch)
    ends = np.append(starts[1:], int(steps[-1]) + 1)
    parts = []
    for start, end in zip(np.maximum(starts, query.window[0]).tolist(), ends.tolist(), strict=True):
        parts.append(coarse(ranks, known, replace(query, steps=slice(start, end)), 1, grid.stretch))
    return joined("C", parts)


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
