"""Coarse rows: what a tensor was over a stretch of steps, as one row. An overview of a long run reads nothing else.

A stretch of 32 steps begins at a multiple of 32. Its row is what one row over the elements of all these steps would
have been; where a stretch lies in two segments, each has a part of it, and the parts merge as those of ranks do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.runs.merging import grouped, last_calls, merged
from backsight.runs.schema import RUNNING, TABLES, Columns, chosen, joined, rows_in

STRETCHES = (32, 512, 8192)
"""How many steps a stored coarse row is about; each is a multiple of the one before."""

_STRETCH = ("tensor", "step")


def parts_of_a_whole(definitions: Iterable[Mapping[str, Any]]) -> NDArray[np.bool_]:
    """Return, by number of tensor, whether the calls of a step are different data; see `RUNNING`.

    The last stands for all numbers from there on: those of tensors whose definition is damaged.
    """
    kinds = {line["id"]: line["kind"] for line in definitions}
    return np.array([kinds.get(number) not in RUNNING for number in range(max(kinds, default=-1) + 2)], bool)


def coarse(rows: Columns, several: NDArray[np.bool_]) -> Iterator[Columns]:
    """Yield the coarse rows of a table R, stretch after stretch.

    several: what `parts_of_a_whole` says; of the other tensors the last call of a step counts.
    """
    yield from coarser(over_one_step(rows, several))


def coarser(rows: Columns) -> Iterator[Columns]:
    """Yield coarse rows over longer and longer stretches, as long as that makes them fewer."""
    for stretch in STRETCHES:
        if rows_in(rows) and stretch > rows["stretch"][0]:
            before, rows = rows_in(rows), over(rows, stretch)
            if rows_in(rows) == before:
                return
            yield rows


def over_one_step(rows: Columns, several: NDArray[np.bool_]) -> Columns:
    """Return coarse rows over a single step each."""
    rows = last_calls({**rows, "rank": np.zeros_like(rows["step"])}, several)
    rows = merged(rows, _STRETCH)
    ones = np.ones_like(rows["step"])
    rows = {**rows, "stretch": ones, "steps": ones}
    return {name: rows[name] for name, _ in TABLES["C"]}


def over(rows: Columns, stretch: int) -> Columns:
    """Return coarse rows over longer stretches, or parts of the same stretches put together."""
    rows = {**rows, "step": rows["step"] // stretch * stretch}
    held, starts = grouped(rows, _STRETCH)
    out = merged(held, _STRETCH)
    out["steps"] = np.add.reduceat(held["steps"], starts) if len(starts) else held["steps"]
    out["stretch"] = np.full(rows_in(out), stretch, "<i8")
    return {name: out[name] for name, _ in TABLES["C"]}


def together(parts: Iterable[Columns]) -> Columns:
    """Return the coarse rows of several segments, of one stretch, as one table."""
    rows = joined("C", list(parts))
    return over(rows, int(rows["stretch"][0])) if rows_in(rows) else rows


def a_step(rows: Columns) -> Columns:
    """Return the rows with what adds up over steps divided by the number of steps: as a typical step has it.

    A norm of these is the root of the mean of the squares of the norms.
    """
    sums = ("count", "m2", "zeros", "nans", "infs")
    return {**rows, **{name: rows[name] / rows["steps"] for name in sums}}


def in_window(rows: Columns, first: int, last: int) -> Columns:
    """Return the rows whose stretches touch these steps."""
    steps = rows["step"]
    keep = (steps <= last) & (steps + rows["stretch"] > first)
    return rows if keep.all() else chosen(rows, keep)
