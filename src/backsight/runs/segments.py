"""Segments: a live one grows by whole blocks, a sorted one has a block for each tensor and an index.

Both are files of blocks (`blocks.py`). `000007.live` holds rows in the order in which they were written. When it is
full, the next is begun and `tidying.py` makes a sorted one of it.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backsight.runs.blocks import HEADER, BadBlock, Block, Skipped, alike, block_at, most_rows, packed, scan, unpacked
from backsight.runs.coarse import over, over_one_step
from backsight.runs.columns import NotAColumn
from backsight.runs.files import opened
from backsight.runs.ordering import newest
from backsight.runs.schema import KEYS, TABLES, Columns, chosen, empty, joined, rows_in

LIVE = ".live"

SORT_KEYS: dict[str, tuple[str, ...]] = {
    "S": ("step",),
    "R": KEYS,
    "H": KEYS,
    "V": (*KEYS, "metric", "element"),
    "N": ("tensor", "step"),
}
"""The tables that hold what was recorded, and the keys of their rows."""

Window = tuple[int, int]
"""The first and the last step that a query asks for."""
ALL_STEPS: Window = (-(1 << 63), (1 << 63) - 1)

_TRAILER = struct.Struct("<QI4s")
_TRAILER_MAGIC = b"BSIX"


@dataclass
class Live:
    """What has been read of a live segment; `refresh` reads on from there."""

    path: Path
    tables: dict[str, Columns] = field(default_factory=dict)
    size: int = 0
    damaged: int = 0
    torn: int = 0

    def refresh(self) -> None:
        """Read the blocks that were written since the last time.

        Raises:
            FileNotFoundError: if the segment has been sorted meanwhile.
        """
        with opened(self.path) as file:
            file.seek(self.size)
            data = file.readall()
        blocks: dict[str, list[Block]] = {}
        self.torn, done = 0, 0
        for found in scan(data):
            if isinstance(found, Skipped) and found.torn:
                self.torn = found.length
                break
            done = found.offset + found.length
            if isinstance(found, Skipped):
                self.damaged += 1
            elif found.table in SORT_KEYS:
                blocks.setdefault(found.table, []).append(found)
        self.size += done
        for table, new in blocks.items():
            held = [self.tables[table]] if table in self.tables else []
            self.tables[table] = joined(table, [*held, *self._unpacked(new, sum(map(rows_in, held)))])

    @property
    def whole(self) -> bool:
        """Whether all of it could be read."""
        return not self.damaged and not self.torn

    @property
    def last(self) -> int | None:
        """The newest step that has rows."""
        return int(self.tables["R"]["step"].max()) if "R" in self.tables else None

    @property
    def nonfinite(self) -> list[int]:
        """Steps in which something is not finite."""
        if "R" not in self.tables:
            return []
        rows = self.tables["R"]
        return [int(step) for step in np.unique(rows["step"][rows["nans"] + rows["infs"] > 0])]

    def parts(self, table: str, tensors: NDArray[np.int64] | None, window: Window) -> Iterator[Columns]:
        """Yield the rows of a table for these tensors and steps."""
        if table in self.tables:
            yield within(self.tables[table], tensors, window)

    def coarse(self, stretch: int, several: NDArray[np.bool_], window: Window = ALL_STEPS) -> Columns:
        """Return the rows over stretches of so many steps; `several` as in `coarse.py`."""
        return coarse_of(self, stretch, several)

    def _unpacked(self, blocks: list[Block], before: int) -> Iterator[Columns]:
        """Yield the rows of the blocks of a table, of which so many have been read before."""
        for _, group in groupby(blocks, alike):
            held = list(group)
            before += len(held) * held[0].rows
            try:
                if before > most_rows(self.size):
                    raise NotAColumn(f"{before} rows in {self.size} bytes")
                yield unpacked(held)
            except NotAColumn:
                before -= len(held) * held[0].rows
                self.damaged += len(held)


@dataclass
class Sorted:
    """A sorted segment: its index, and how many of its blocks turned out to be damaged."""

    path: Path
    index: Columns = field(default_factory=dict)
    damaged: int = 0
    torn: int = 0
    size: int = 0
    _bad: set[int] = field(default_factory=set)

    def refresh(self) -> None:
        """Read the index, once; without one that is whole, the blocks are looked for.

        Raises:
            FileNotFoundError: if the segment has been merged into a larger one meanwhile.
        """
        if not self.index:
            with opened(self.path) as file:
                self.size = os.fstat(file.fileno()).st_size
                self.index = _index_at_end(file.fileno(), self.size) or self._found_blocks(file.readall())

    @property
    def whole(self) -> bool:
        """Whether everything that has been read of it could be."""
        return not self.damaged

    @property
    def last(self) -> int | None:
        """The newest step that has rows."""
        rows = self.index["table"] == ord("R")
        return int(self.index["last"][rows].max()) if rows.any() else None

    @property
    def nonfinite(self) -> list[int]:
        """Of each tensor the first step in which it is not finite."""
        steps = self.index["nonfinite"]
        return [int(step) for step in np.unique(steps[steps >= 0])]

    def parts(self, table: str, tensors: NDArray[np.int64] | None, window: Window) -> Iterator[Columns]:
        """Yield the rows of a table for these tensors and steps; only their blocks are read."""
        index = self.index
        wanted = (index["table"] == ord(table)) & (index["first"] <= window[1]) & (index["last"] >= window[0])
        if tensors is not None and table != "S":
            wanted &= among(index["tensor"], tensors)
        positions = np.flatnonzero(wanted).tolist()
        if not positions:
            return
        with opened(self.path) as file:
            for k in positions:
                rows = self._block(file.fileno(), k, table)
                if rows is not None:
                    yield within(rows, None, window)

    def coarse(self, stretch: int, several: NDArray[np.bool_], window: Window = ALL_STEPS) -> Columns:
        """Return the rows over stretches of so many steps; `several` as in `coarse.py`.

        window: where none of the stretches touches these steps, nothing is read, and there are no rows.
        """
        index = self.index
        rows = index["table"] == ord("R")
        if not rows.any():
            return empty("C")
        first, last = int(index["first"][rows].min()), int(index["last"][rows].max())
        if window[0] // stretch > last // stretch or window[1] // stretch < first // stretch:
            return empty("C")
        mine = np.flatnonzero((index["table"] == ord("C")) & (index["tensor"] <= stretch))
        if not len(mine):
            return coarse_of(self, stretch, several)
        longest = mine[np.argmax(index["tensor"][mine])]
        with opened(self.path) as file:
            stored = self._block(file.fileno(), int(longest), "C")
        if stored is None:
            return coarse_of(self, stretch, several)
        return stored if int(index["tensor"][longest]) == stretch else over(stored, stretch)

    def by_tensor(self, table: str) -> Iterator[tuple[int, Columns]]:
        """Yield the tensors of a table in order, each with its rows."""
        positions = np.flatnonzero(self.index["table"] == ord(table))
        positions = positions[np.argsort(self.index["tensor"][positions], kind="stable")]
        with opened(self.path) as file:
            for k in positions.tolist():
                rows = self._block(file.fileno(), k, table)
                if rows is not None:
                    yield int(self.index["tensor"][k]), rows

    def _block(self, file: int, entry: int, table: str) -> Columns | None:
        """Return the rows of the block of an entry; None, and counted once, where it is damaged, or is another."""
        offset, length, number = (int(self.index[name][entry]) for name in ("offset", "length", "tensor"))
        try:
            block = block_at(memoryview(os.pread(file, length, offset)), 0)
            if block.table != table:
                raise BadBlock("the block of another table")
            rows = self._rows(block)
            if (of := rows.get("stretch" if table == "C" else "tensor")) is not None and (of != number).any():
                raise BadBlock("the block of another tensor")
            return rows
        except (BadBlock, NotAColumn):
            self.damaged += offset not in self._bad
            self._bad.add(offset)
            return None

    def _found_blocks(self, data: bytes) -> Columns:
        entries = []
        for found in scan(data):
            if isinstance(found, Skipped):
                self.damaged += 1
            elif found.table in SORT_KEYS:
                try:
                    entries.append(_entry(found.table, self._rows(found), found.offset, found.length))
                except NotAColumn:
                    self.damaged += 1
        return _index(entries)

    def _rows(self, block: Block) -> Columns:
        if block.rows > most_rows(self.size):
            raise NotAColumn(f"{block.rows} rows in a file of {self.size} bytes")
        return unpacked([block])


def segment(path: Path) -> Live | Sorted:
    """Return a segment by its name, not yet read."""
    return Live(path) if path.suffix == LIVE else Sorted(path)


def coarse_of(segment: Live | Sorted, stretch: int, several: NDArray[np.bool_]) -> Columns:
    """Return coarse rows out of the rows themselves."""
    rows = newest(joined("R", list(segment.parts("R", None, ALL_STEPS))), KEYS)
    return over(over_one_step(rows, several), stretch)


def write_sorted(target: Path, groups: Iterable[tuple[str, Columns]]) -> None:
    """Write groups of rows, each of one table and one tensor (or stretch), as a segment that appears when it is whole.

    Raises:
        OSError: if it cannot be written; there is nothing then.
    """
    unfinished = target.with_suffix(".unfinished")
    try:
        with open(unfinished, "wb") as file:
            entries, offset = [], 0
            for table, rows in groups:
                data = packed(table, rows)
                file.write(data)
                entries.append(_entry(table, rows, offset, len(data)))
                offset += len(data)
            where = struct.pack("<Q", offset)
            file.write(packed("I", _index(entries)))
            file.write(_TRAILER.pack(offset, zlib.crc32(where), _TRAILER_MAGIC))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def within(rows: Columns, tensors: NDArray[np.int64] | None, window: Window) -> Columns:
    """Return the rows of these tensors and steps."""
    steps = rows["step"]
    if not len(steps):
        return rows
    keep = None
    if window != ALL_STEPS and (window[0] > steps.min() or window[1] < steps.max()):
        keep = (steps >= window[0]) & (steps <= window[1])
    if tensors is not None and "tensor" in rows:
        mine = among(rows["tensor"], tensors)
        keep = mine if keep is None else keep & mine
    return rows if keep is None or keep.all() else chosen(rows, keep)


def among(numbers: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each number is one of those wanted."""
    found: NDArray[np.bool_] = numbers == wanted[0] if len(wanted) == 1 else np.isin(numbers, wanted)
    return found


def _entry(table: str, rows: Columns, offset: int, length: int) -> tuple[int, ...]:
    steps = rows["step"]
    bad = steps[rows["nans"] + rows["infs"] > 0] if table == "R" else steps[:0]
    column = "stretch" if table == "C" else "tensor"
    number = int(rows[column][0]) if column in rows else 0
    nonfinite = int(bad.min()) if len(bad) else -1
    return ord(table), number, len(steps), int(steps.min()), int(steps.max()), nonfinite, offset, length


def _index(entries: list[tuple[int, ...]]) -> Columns:
    held = np.array(entries, "<i8").reshape(-1, len(TABLES["I"]))
    return {name: np.ascontiguousarray(held[:, k]) for k, (name, _) in enumerate(TABLES["I"])}


def _index_at_end(file: int, size: int) -> Columns | None:
    """Return the index that the trailer points to; None where one of the two is damaged, or points elsewhere."""
    if size < _TRAILER.size:
        return None
    offset, checksum, magic = _TRAILER.unpack(os.pread(file, _TRAILER.size, size - _TRAILER.size))
    if magic != _TRAILER_MAGIC or zlib.crc32(struct.pack("<Q", offset)) != checksum or offset >= size:
        return None
    try:
        block = block_at(memoryview(os.pread(file, size - offset, offset)), 0)
        if block.table != "I" or block.rows > size // HEADER:  # an entry is about a block, which has a header
            return None
        index = unpacked([block])
    except (BadBlock, NotAColumn):
        return None
    inside = (index["length"] <= size) & (index["offset"] <= size - index["length"])
    return index if inside.all() else None
