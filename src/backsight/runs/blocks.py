"""Blocks: a few rows of one table with a checksum, the unit that is either read whole or not at all.

header   magic "BSB1", table letter, number of columns, rows, length and CRC-32 of the payload, CRC-32 of the header
payload  one code a column, then the columns one after the other
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from backsight.runs import columns
from backsight.runs.schema import LATER, TABLES, Columns, is_sound, nothing, rows_in

MAGIC = b"BSB1"

_FREE_ROWS = 1 << 22
_ROWS_A_BYTE = 16
_FIELDS = struct.Struct("<4s1sBHIII")
HEADER = _FIELDS.size + 4


class BadBlock(ValueError):
    """These bytes are no block, or not the block that was written."""


@dataclass(frozen=True)
class Block:
    """Where a block lies in its file, and what its header says; the payload has been checked."""

    table: str
    rows: int
    offset: int
    length: int
    columns: int
    payload: memoryview


@dataclass(frozen=True)
class Skipped:
    """Bytes that are no whole block: `torn` if nothing whole follows, as a kill or a write in progress leaves them."""

    offset: int
    length: int
    torn: bool


def packed(table: str, rows: Mapping[str, columns.Column]) -> bytes:
    """Return a block of these rows, at least one."""
    encoded = [columns.encode(rows[name]) for name, _ in TABLES[table]]
    if table in LATER and encoded[-LATER[table]][0] == columns.ZERO:  # the first of these says whether there is more
        del encoded[-LATER[table] :]
    payload = bytes(code for code, _ in encoded) + b"".join(data for _, data in encoded)
    fields = _FIELDS.pack(MAGIC, table.encode(), len(encoded), 0, rows_in(rows), len(payload), zlib.crc32(payload))
    return fields + struct.pack("<I", zlib.crc32(fields)) + payload


def block_at(data: memoryview, offset: int) -> Block:
    """Return the block that begins at this offset.

    Raises:
        BadBlock: if none does, or not all of it is there, or a checksum disagrees.
    """
    head = data[offset : offset + HEADER]
    if len(head) < HEADER:
        raise BadBlock("the header is cut off")
    magic, letter, columns_held, _, rows, length, checksum = _FIELDS.unpack_from(head)
    if magic != MAGIC or zlib.crc32(head[: _FIELDS.size]) != struct.unpack_from("<I", head, _FIELDS.size)[0]:
        raise BadBlock("there is no header here")
    payload = data[offset + HEADER : offset + HEADER + length]
    if len(payload) < length:
        raise BadBlock("the payload is cut off")
    if zlib.crc32(payload) != checksum:
        raise BadBlock("the payload is not what was written")
    return Block(letter.decode("latin-1"), rows, offset, HEADER + length, columns_held, payload)


def scan(data: bytes) -> Iterator[Block | Skipped]:
    """Yield every whole block in the order of the file, and the stretches between them that are none."""
    view = memoryview(data)
    offset = bad = 0
    while offset < len(data):
        try:
            block = block_at(view, offset)
        except BadBlock:
            following = data.find(MAGIC, offset + 1)
            offset = following if following >= 0 else len(data)
            continue
        if bad < offset:
            yield Skipped(bad, offset - bad, torn=False)
        yield block
        offset = bad = block.offset + block.length
    if bad < len(data):
        yield Skipped(bad, len(data) - bad, torn=True)


def unpacked(blocks: Sequence[Block]) -> Columns:
    """Return the rows of blocks that are `alike`, of a table that is known, one after the other.

    Columns beyond the known ones are left alone.

    Raises:
        NotAColumn: if the payload, though it is what was written, does not hold this table.
    """
    if len(blocks) > 1:
        try:
            return _together(blocks)
        except columns.NotAColumn:  # as long as each other, but divided among their columns in another way
            parts = [_together([block]) for block in blocks]
            return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return _together(blocks)


def _together(blocks: Sequence[Block]) -> Columns:
    first = blocks[0]
    if not first.rows or len(first.payload) < first.columns:
        raise columns.NotAColumn(f"a block of {first.rows} rows with {first.columns} columns")
    layout = TABLES[first.table]
    if first.columns < len(layout) - LATER.get(first.table, 0):
        raise columns.NotAColumn(f"a block of table {first.table} with {first.columns} of {len(layout)} columns")
    joined = first.payload if len(blocks) == 1 else b"".join(block.payload for block in blocks)
    data = np.frombuffer(joined, "u1").reshape(len(blocks), -1)
    found: Columns = {}
    position = first.columns
    for code, (name, kind) in zip(first.payload[: first.columns], layout, strict=False):
        found[name], used = columns.decode(code, kind, data[:, position:], first.rows)
        position += used
    for name, kind in layout[first.columns :]:
        found[name] = nothing(kind, len(blocks) * first.rows)
    if not is_sound(found):
        raise columns.NotAColumn(f"rows of table {first.table} that belong nowhere")
    return found


def most_rows(size: int) -> int:
    """Return how many rows a segment of so many bytes may claim to hold in a table, or a tensor of it.

    A million rows that are all alike take a few bytes, so the size alone does not tell. But every step has its time,
    which is eight bytes, and a segment that is being written ends long before the rows that are free.
    """
    return _FREE_ROWS + _ROWS_A_BYTE * size


def alike(block: Block) -> tuple[int, int, bytes]:
    """What neighbouring blocks of a table have to share to be unpacked together, which is much faster."""
    return block.rows, block.length, bytes(block.payload[: block.columns])
