"""A reader of runs written from docs/format.md alone: the standard library, and nothing of backsight."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

MEASURED = ["count:i", "mean:f", "m2:f", "min:f", "max:f", "zeros:i", "nans:i", "infs:i"]
COLUMNS = {
    b"S": ["step:i", "time:f"],
    b"R": ["tensor:i", "step:i", "call:i", "order:i", *MEASURED],
    b"H": ["tensor:i", "step:i", "call:i", "sampled:i", "counts:h", "signed:i", "negatives:h"],
    b"C": ["tensor:i", "step:i", "stretch:i", "steps:i", *MEASURED],
    b"V": ["tensor:i", "step:i", "call:i", "metric:i", "element:i", "value:f"],
    b"N": ["tensor:i", "step:i", "value:f"],
    b"I": ["table:i", "tensor:i", "rows:i", "first:i", "last:i", "nonfinite:i", "offset:i", "length:i"],
}
KEYS = {b"S": 1, b"R": 3, b"H": 3, b"C": 3, b"V": 5, b"N": 2}

Row = dict[str, object]


def objects(path: Path) -> Iterator[Row]:
    """The objects of a JSONL file whose checksums agree."""
    for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else []:
        body, mark, tail = line.rpartition(b',"crc":"')
        if mark and tail == b'%08x"}' % zlib.crc32(body):
            yield json.loads(body + b"}")


def read_table(rank: Path, table: bytes) -> list[Row]:
    """The rows of a table of one rank, each key once."""
    found = {}
    for path in segments(rank):
        for row in (row for letter, rows in blocks(path.read_bytes()) if letter == table for row in rows):
            key = tuple(value for value in row.values() if not isinstance(value, list))[: KEYS[table]]
            if table == b"V":
                key = tuple(row[name] for name in ("tensor", "step", "call", "metric", "element"))
            found[key] = row
    return [found[key] for key in sorted(found)]


def segments(rank: Path) -> list[Path]:
    """The files that hold, in order; of several with the same number the wider, or the sorted one."""
    named = []
    for path in rank.iterdir():
        if match := re.fullmatch(r"(\d{6,})-(\d{6,})\.sorted|(\d{6,})\.live", path.name):
            first, last = (int(match[3]), int(match[3])) if match[3] else (int(match[1]), int(match[2]))
            named.append((first, -last, match[3] is not None, path))
    out, reach = [], -1
    for _, last, _, path in sorted(named):
        if -last > reach:
            out.append(path)
            reach = -last
    return out


def blocks(data: bytes) -> Iterator[tuple[bytes, list[Row]]]:
    """The blocks whose checksums agree."""
    at = 0
    while (at := data.find(b"BSB1", at)) >= 0:
        head = data[at : at + 24]
        if len(head) == 24 and zlib.crc32(head[:20]) == int.from_bytes(head[20:], "little"):
            _, table, columns, _, rows, length, crc = struct.unpack("<4scBHIII", head[:20])
            payload = data[at + 24 : at + 24 + length]
            if len(payload) == length and zlib.crc32(payload) == crc:
                if table in COLUMNS:
                    yield table, decoded(COLUMNS[table], columns, rows, payload)
                at += 24 + length
                continue
        at += 1


def decoded(layout: list[str], columns: int, n: int, payload: bytes) -> list[Row]:
    names, values, at = [], [], columns
    for code, column in zip(payload[:columns], layout, strict=False):  # either may have columns that the other lacks
        name, kind = column.split(":")
        found, size = decode(code, kind, n, payload[at:])
        names.append(name)
        values.append(found)
        at += size
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def decode(code: int, kind: str, n: int, data: bytes) -> tuple[list[object], int]:
    if code == 0:
        return [0 if kind == "i" else 0.0] * n, 0
    if code == 1:
        return [struct.unpack_from("<q" if kind == "i" else "<d", data)[0]] * n, 8
    if code == 2:
        first, stride = struct.unpack_from("<qq", data)
        return [first + i * stride for i in range(n)], 16
    if code in (3, 4, 5, 6):
        letter, width = {3: ("B", 1), 4: ("H", 2), 5: ("I", 4), 6: ("Q", 8)}[code]
        low, *offsets = struct.unpack_from(f"<q{n}{letter}", data)
        return [(low + u + (1 << 63)) % (1 << 64) - (1 << 63) for u in offsets], 8 + n * width
    if code in (7, 8):
        return list(struct.unpack_from(f"<{n}{'f' if code == 7 else 'd'}", data)), n * (4 if code == 7 else 8)
    size, *masks = struct.unpack_from(f"<I{n}Q", data)
    stream = iter(data[4 + 8 * n : 4 + 8 * n + size])
    return [[leb128(stream) if mask >> k & 1 else 0 for k in range(64)] for mask in masks], 4 + 8 * n + size


def leb128(stream: Iterator[int]) -> int:
    value = shift = 0
    while True:
        byte = next(stream)
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value
