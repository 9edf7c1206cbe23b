"""Full segments become sorted ones, and many small sorted ones a larger one, so that a series is in few places.

Every step of it can be killed: a sorted segment appears when it is whole, what it was made of is removed afterwards,
and where both are there the sorted, or wider, one holds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backsight.runs import files, lines, places
from backsight.runs.coarse import STRETCHES, coarse, coarser, parts_of_a_whole
from backsight.runs.coarse import together as coarse_together
from backsight.runs.members import TENSOR
from backsight.runs.ordering import begins, newest
from backsight.runs.places import SegmentName
from backsight.runs.schema import Columns, chosen, joined, rows_in
from backsight.runs.segments import LIVE, SORT_KEYS, Live, Sorted, write_sorted

FAN = 16
"""So many neighbours of one width are merged into one."""

MERGED_BYTES = 128 << 20
"""A segment does not grow larger than this by merging."""


def tidy(folder: Path, below: int) -> None:
    """Sort the live segments before number `below`, and merge where there are enough to merge.

    A segment with damage stays as it is, as evidence.

    Raises:
        OSError: if there is no room; all is still there then, and reads as well, only more slowly.
    """
    for name in places.segments_in(folder):
        if name.suffix == LIVE and name.first < below:
            sort(folder, name)
    while group := _mergeable(folder, places.segments_in(folder)):
        if not merge(folder, group):
            break


def sort(folder: Path, name: SegmentName) -> bool:
    """Make a sorted segment of a live one, unless it is damaged, or empty as a full disk leaves it."""
    live = Live(folder / name.text)
    live.refresh()
    if not live.whole or not live.tables:
        return False
    write_sorted(folder / places.sorted_name(name.first, name.last), _by_tensor(live.tables, _several(folder)))
    live.path.unlink()
    return True


def merge(folder: Path, names: list[SegmentName]) -> bool:
    """Make one sorted segment of several neighbours, a tensor at a time, unless one is damaged."""
    parts = [Sorted(folder / name.text) for name in names]
    for part in parts:
        part.refresh()
    target = folder / places.sorted_name(names[0].first, names[-1].last)
    write_sorted(target, _across(parts, _several(folder)))
    if not all(part.whole for part in parts):  # known only now that all of it has been read
        target.unlink()
        return False
    for part in parts:
        part.path.unlink()
    return True


def _mergeable(folder: Path, names: list[SegmentName]) -> list[SegmentName]:
    """Return the first neighbours of equal width that are enough, and together not too large."""
    for start in range(len(names) - FAN + 1):
        group = names[start : start + FAN]
        if group[0].suffix == LIVE or len({(name.suffix, name.last - name.first) for name in group}) > 1:
            continue
        if sum((folder / name.text).stat().st_size for name in group) <= MERGED_BYTES:
            return group
    return []


def _several(folder: Path) -> NDArray[np.bool_]:
    """Return what the definitions say of calls; see `coarse.py`."""
    path = folder / places.TENSORS
    if not path.exists():
        return parts_of_a_whole(())
    with files.opened(path) as file:
        return parts_of_a_whole(lines.read(file.readall(), TENSOR).objects)


def _by_tensor(tables: dict[str, Columns], several: NDArray[np.bool_]) -> Iterator[tuple[str, Columns]]:
    for table, keys in SORT_KEYS.items():
        if table not in tables:
            continue
        rows = newest(tables[table], keys)
        starts = np.flatnonzero(begins(rows, ("tensor",))).tolist() if "tensor" in rows else [0]
        for start, end in zip(starts, [*starts[1:], rows_in(rows)], strict=True):
            yield table, chosen(rows, slice(start, end))
        if table == "R":
            yield from (("C", level) for level in coarse(rows, several))


def _across(parts: list[Sorted], several: NDArray[np.bool_]) -> Iterator[tuple[str, Columns]]:
    for table, keys in SORT_KEYS.items():
        # Of one tensor the rows of the earlier part come first: `heapq.merge` keeps that order.
        together = heapq.merge(*(part.by_tensor(table) for part in parts), key=itemgetter(0))
        for _, same in groupby(together, key=itemgetter(0)):
            yield table, newest(joined(table, [rows for _, rows in same]), keys)
    level = coarse_together(part.coarse(STRETCHES[0], several) for part in parts)
    yield from (("C", each) for each in (level, *coarser(level)) if rows_in(each))
