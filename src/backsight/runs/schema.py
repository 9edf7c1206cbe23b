"""What a row of a recording is: ten numbers of one tensor at one step, and a histogram of its magnitudes by sign."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

STATISTICS = np.dtype(
    [
        ("count", "<i8"),
        ("mean", "<f8"),
        ("m2", "<f8"),
        ("min", "<f8"),
        ("max", "<f8"),
        ("zeros", "<i8"),
        ("nans", "<i8"),
        ("infs", "<i8"),
    ]
)
"""The statistics of one tensor, as they are measured and as they are stored.

`count` counts all elements, `zeros`, `nans` and `infs` some of them. `mean`, `m2` (the sum of squared distances from
the mean), `min` and `max` are over the finite elements; where there is none they mean nothing, and readers show NaN.
All the rest is derived when read, and two rows merge exactly: see `merging.py` and `derived.py`.
"""

BINS = 64
"""Bins of a histogram: bin k counts the finite, non-zero elements with floor(log2|x|) = k + LOWEST_EXPONENT."""

LOWEST_EXPONENT = -48
"""The exponent of bin 0, which also holds all that is smaller; the last bin, 2^15, also holds all that is larger."""

Columns = dict[str, NDArray[Any]]
"""A table as columns of equal length: how rows travel through this room."""

KEYS = ("tensor", "step", "call")
"""What tells the rows of one rank apart; of two rows with the same key, the one written last holds."""

RUNNING = frozenset(("grad", "averaged_grad", "weight", "buffer", "state", "update"))
"""Kinds whose calls in a step are one tensor again and again, such as a gradient that is accumulated: the last counts.

The calls of all other kinds, inputs and outputs above all, are different data, parts of one whole.
"""

TABLES: dict[str, tuple[tuple[str, str], ...]] = {
    "S": (("step", "<i8"), ("time", "<f8")),
    "R": (
        ("tensor", "<i8"),
        ("step", "<i8"),
        ("call", "<i8"),
        ("order", "<i8"),
        *((name, STATISTICS[name].str) for name in STATISTICS.names or ()),
    ),
    "H": (
        ("tensor", "<i8"),
        ("step", "<i8"),
        ("call", "<i8"),
        ("sampled", "<i8"),
        ("counts", "histogram"),
        ("signed", "<i8"),
        ("negatives", "histogram"),
    ),
    "C": (
        ("tensor", "<i8"),
        ("step", "<i8"),
        ("stretch", "<i8"),
        ("steps", "<i8"),
        *((name, STATISTICS[name].str) for name in STATISTICS.names or ()),
    ),
    "V": (
        ("tensor", "<i8"),
        ("step", "<i8"),
        ("call", "<i8"),
        ("metric", "<i8"),
        ("element", "<i8"),
        ("value", "<f8"),
    ),
    "N": (("tensor", "<i8"), ("step", "<i8"), ("value", "<f8")),
    "I": (
        ("table", "<i8"),
        ("tensor", "<i8"),
        ("rows", "<i8"),
        ("first", "<i8"),
        ("last", "<i8"),
        ("nonfinite", "<i8"),
        ("offset", "<i8"),
        ("length", "<i8"),
    ),
}
"""The tables of a segment by their letter, and their columns in the order in which a block holds them.

S: the steps and when each ended. R: the rows. H: the histograms. C: coarse rows, each over a stretch of steps. V:
values of the user's own metrics. N: numbers of steps that are about no tensor, such as losses; `tensor` is the number
of their name. I: the index of a sorted segment.
"""

LATER = {"H": 2}
"""How many of the last columns of a table a block may lack, as those of earlier recordings do: all is zero in these."""

PLACES = {
    **dict.fromkeys(("tensor", "step", "call", "order", "metric", "sampled", "signed", "table", "first", "last"), 0),
    **dict.fromkeys(("rows", "stretch", "steps"), 1),
    **dict.fromkeys(("element", "nonfinite"), -1),
    **dict.fromkeys(("offset", "length"), 0),
}
"""The columns that say where a row belongs rather than what was measured, and the least that each may be."""

MOST = 1 << 62
"""No step, size or number of a recording comes near."""


def is_sound(columns: Columns) -> bool:
    """Whether what says where rows belong can be true, and parts are no more than the whole: readers count on it."""
    placed = all(
        not len(column) or (column.min() >= PLACES[name] and column.max() < MOST)
        for name, column in columns.items()
        if name in PLACES
    )
    return placed and ("negatives" not in columns or bool((columns["negatives"] <= columns["counts"]).all()))


def empty(table: str) -> Columns:
    """Return the table without a row."""
    return {name: nothing(kind, 0) for name, kind in TABLES[table]}


def joined(table: str, parts: list[Columns]) -> Columns:
    """Return the parts one below the other."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return empty(table)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def chosen(columns: Columns, which: NDArray[Any] | slice) -> Columns:
    """Return some of the rows: by a mask, by positions or as a slice."""
    return {name: column[which] for name, column in columns.items()}


def rows_in(columns: Mapping[str, Sized]) -> int:
    """Return how many rows a table has."""
    return len(next(iter(columns.values())))


def nothing(kind: str, rows: int) -> NDArray[Any]:
    """Return a column of zeros."""
    return np.zeros((rows, BINS), "<u4") if kind == "histogram" else np.zeros(rows, kind)
