"""Where a sequence repeats itself: candidate periods, and the stretches that look alike one period apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_Period = TypeVar("_Period", int, Ints)

PERIODS_A_LENGTH = 8
"""How many of the commonest distances are tried for each length of window."""

SPARED = 4
"""How many rows must be left out for a fold to be worth the line that says so."""


@dataclass(frozen=True, eq=False)
class Sequence:
    """A sequence of rows with edges to earlier rows.

    Rows with equal `labels` have equally many inputs. Those of row `i` are `inputs[start[i]:start[i + 1]]`, and
    `consumer` is the row of each of these edges.
    """

    labels: Ints
    start: Ints
    inputs: Ints
    consumer: Ints

    def __len__(self) -> int:
        return len(self.labels)


def least(period: _Period, spared: int) -> _Period:
    """Return how many rows a fold of this period must leave out to leave out `spared`: whole repetitions."""
    return -(-spared // period) * period


def stretches(rows: Sequence, spared: int) -> Ints:
    """Return (start, stop, period) of every stretch whose rows, but for the first `period`, resemble those before.

    This is a necessary condition of a repetition, not a sufficient one. The periods tried are those at which windows of
    1, 2, 4, ... rows recur most often: O(n log n), with numpy's constants.
    """
    found = [stretch for period in sorted(_periods(rows.labels)) for stretch in _at_period(rows, period, spared)]
    return np.array(found, np.int64).reshape(-1, 3)


def _periods(labels: Ints) -> set[int]:
    """Return the distances at which equal windows follow each other most often, for windows of 1, 2, 4, ... rows.

    A window as long as a period recurs exactly one period later (shorter ones may recur within it), so three
    repetitions are always found, and two nearly always.
    """
    periods: set[int] = set()
    rank, length = labels, 1
    while len(rank) > 1:
        order = np.argsort(rank, kind="stable")
        same = rank[order[1:]] == rank[order[:-1]]
        if not same.any():
            break
        counts = np.bincount((order[1:] - order[:-1])[same])
        top = np.argsort(-counts, kind="stable")[:PERIODS_A_LENGTH]
        periods.update(top[counts[top] > 0].tolist())
        # Equal windows get equal ranks; two of them side by side make a window of twice the length.
        dense = np.empty(len(rank), np.int64)
        dense[order] = np.concatenate([[0], np.cumsum(~same)])
        rank = dense[:-length] * len(labels) + dense[length:]
        length *= 2
    return periods


def _at_period(rows: Sequence, period: int, spared: int) -> Iterator[tuple[int, int, int]]:
    alike = rows.labels[period:] == rows.labels[:-period]
    if not any(_runs(alike, least(period, spared))):
        return
    first = rows.start[period]
    consumer, source = rows.consumer[first:], rows.inputs[first:]
    edge = np.arange(first, len(rows.inputs)) - rows.start[consumer] + rows.start[consumer - period]
    earlier = rows.inputs[np.minimum(edge, len(rows.inputs) - 1)]
    carried = (source > consumer - 2 * period) & (earlier < consumer - period)  # from before the first repetition
    paired = (source < consumer - period) & (rows.labels[source] == rows.labels[earlier])  # from another loop
    good = (source - earlier == period) | (source == earlier) | carried | paired
    alike[consumer[~good] - period] = False
    for start, stop in _runs(alike, least(period, spared)):
        yield start, stop + period, period


def _runs(flags: NDArray[np.bool_], shortest: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of the runs of True that are long enough."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    starts, stops = edges[::2], edges[1::2]
    long = stops - starts >= shortest
    yield from zip(starts[long].tolist(), stops[long].tolist(), strict=True)
