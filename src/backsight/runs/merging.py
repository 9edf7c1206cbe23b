"""Rows of several ranks, or of several calls, as one: exactly what one row over all their elements would have been.

Counts add. Means and squared distances merge by the formula of Chan, Golub and LeVeque (1979), least and greatest by
comparison, histograms by addition. A group of one row passes through untouched.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from backsight.runs.derived import finite
from backsight.runs.ordering import begins, ordered
from backsight.runs.schema import KEYS, Columns, chosen, rows_in

_SUMS = ("count", "zeros", "nans", "infs")


def grouped(rows: Columns, keys: Sequence[str]) -> tuple[Columns, NDArray[np.int64]]:
    """Return the rows sorted by the keys, and where each group of equal keys begins."""
    rows = ordered(rows, keys)
    return rows, np.flatnonzero(begins(rows, keys))


def one_replica(rows: Columns) -> Columns:
    """Return the rows without those that replicas of a tensor on higher ranks give again."""
    if not rows["replicated"].any():
        return rows
    rows = ordered(rows, (*KEYS, "rank"))
    begin = begins(rows, KEYS)
    first = rows["rank"][begin][np.cumsum(begin) - 1]
    return chosen(rows, (rows["replicated"] == 0) | (rows["rank"] == first))


def last_calls(rows: Columns, several: NDArray[np.bool_]) -> Columns:
    """Return of each tensor, step and rank the row of the last call; of those in `several`, by tensor, all rows.

    several: the last of it stands for all tensors from there on.
    """
    rows = ordered(rows, ("tensor", "step", "rank", "call"))
    begin = begins(rows, ("tensor", "step", "rank"))
    if begin.all():
        return rows
    group = np.cumsum(begin) - 1
    ends = np.append(np.flatnonzero(begin)[1:], rows_in(rows)) - 1
    return chosen(
        rows, (rows["call"] == rows["call"][ends][group]) | several[np.minimum(rows["tensor"], len(several) - 1)]
    )


def merged(rows: Columns, keys: Sequence[str]) -> Columns:
    """Return one row for each group of equal keys; `ranks` says how many rows it was made of."""
    rows, starts = grouped(rows, keys)
    sizes = np.diff(np.append(starts, rows_in(rows)))
    if not len(starts) or sizes.max() == 1:
        return {"ranks": sizes, **rows}
    out = {**chosen(rows, starts), "ranks": _ranks(rows, starts, sizes)}
    many = sizes > 1
    for name in _SUMS:
        out[name] = np.add.reduceat(rows[name], starts)
    if "order" in rows:
        out["order"] = np.minimum.reduceat(rows["order"], starts)
    n = finite(rows)
    total = np.add.reduceat(n, starts)
    low = np.minimum.reduceat(np.where(n > 0, rows["min"], np.inf), starts)
    high = np.maximum.reduceat(np.where(n > 0, rows["max"], -np.inf), starts)
    mean, m2 = _chan(rows, n, total, starts, sizes)
    for name, value in (("mean", mean), ("m2", m2), ("min", low), ("max", high)):
        out[name] = np.where(many, value, out[name])
    return out


def merged_counts(rows: Columns, keys: Sequence[str]) -> Columns:
    """Return one histogram for each group of equal keys."""
    rows, starts = grouped(rows, keys)
    if len(starts) == rows_in(rows):
        return rows
    out = chosen(rows, starts)
    if len(starts):
        out["sampled"] = np.add.reduceat(rows["sampled"], starts)
        out["signed"] = np.minimum.reduceat(rows["signed"], starts)
        for name in ("counts", "negatives"):
            out[name] = np.add.reduceat(rows[name].astype("<u8"), starts, axis=0)
    return out


def merged_values(rows: Columns, keys: Sequence[str], merge: str) -> Columns:
    """Return one value of a metric for each group of equal keys, made as the metric says.

    Values that may not be merged ("none") and disagree leave NaN: there is no one number then.
    """
    rows, starts = grouped(rows, keys)
    values, sizes = rows["value"], np.diff(np.append(starts, rows_in(rows)))
    out = {**chosen(rows, starts), "ranks": _ranks(rows, starts, sizes)}
    if not len(starts):
        return out
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    if merge == "sum":
        found = np.add.reduceat(values, starts)
    elif merge == "norm":
        found = np.sqrt(np.add.reduceat(values * values, starts))
    elif merge in ("min", "max"):
        found = low if merge == "min" else high
    else:
        found = np.where(low == high, low, np.nan)
    out["value"] = np.where(sizes > 1, found, out["value"])
    return out


def _ranks(rows: Columns, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of how many rows each group is made: those that have been merged before count for all that they were."""
    return np.add.reduceat(rows["ranks"], starts) if "ranks" in rows and len(starts) else sizes


def _chan(
    rows: Columns, n: NDArray[np.int64], total: NDArray[np.int64], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    group = np.repeat(np.arange(len(starts)), sizes)
    share = n / np.maximum(total, 1)[group]
    means = np.where(n > 0, rows["mean"], 0.0)
    mean = np.add.reduceat(means * share, starts)
    away = np.where(n > 0, means - mean[group], 0.0)
    with np.errstate(over="ignore"):  # of doubles near their limit
        m2 = np.add.reduceat(np.where(n > 0, rows["m2"], 0.0) + n * away * away, starts)
    return mean, m2
