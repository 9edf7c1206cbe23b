"""A column as bytes: the narrowest encoding that keeps every value exactly.

An encoder that does not fit returns None, and the next is tried. Nothing is rounded: a column of float64 that came from
float32 takes four bytes a value because every bit of it survives the way there and back.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.runs.packed import PackedHistograms
from backsight.runs.schema import BINS

ZERO, CONSTANT, LINEAR, OFFSET1, OFFSET2, OFFSET4, OFFSET8, FLOAT4, FLOAT8, VARINTS = range(10)
"""The codes of the encodings, as `docs/format.md` describes them."""

_OFFSETS = {OFFSET1: ("<u1", 1), OFFSET2: ("<u2", 2), OFFSET4: ("<u4", 4), OFFSET8: ("<u8", 8)}


Column = NDArray[Any] | PackedHistograms


class NotAColumn(ValueError):
    """The bytes do not hold a column of this many rows."""


def encode(column: Column) -> tuple[int, bytes]:
    """Return the code of the narrowest encoding, and the bytes; a two-dimensional column is one of histograms."""
    if isinstance(column, PackedHistograms):
        return VARINTS, struct.pack("<I", len(column.counts)) + column.filled.tobytes() + column.counts
    if column.ndim == 2:
        return encode(PackedHistograms.of(column))
    return _floats(column) if column.dtype.kind == "f" else _integers(column)


def decode(code: int, kind: str, data: NDArray[np.uint8], rows: int) -> tuple[NDArray[Any], int]:
    """Return the column, and how many bytes of each block it took.

    data: [blocks, bytes]: the same column of several blocks, each from where it begins. They come out in a row.

    Raises:
        NotAColumn: where the bytes end too early, or the code is not known.
    """
    try:
        if kind == "histogram":
            return _histograms(code, data, rows)
        return _decode_floats(code, data, rows) if kind == "<f8" else _decode_integers(code, data, rows)
    except (ValueError, IndexError) as error:
        raise NotAColumn(f"a column of {rows} rows with encoding {code} does not decode: {error}") from error


def _taken(data: NDArray[np.uint8], start: int, kind: str, count: int) -> NDArray[Any]:
    """Return so many numbers of each block: [blocks, count]."""
    size = np.dtype(kind).itemsize * count
    if data.shape[1] < start + size:
        raise ValueError(f"{size} bytes are needed from {start} on, of {data.shape[1]}")
    return np.ascontiguousarray(data[:, start : start + size]).view(kind)


def _integers(column: NDArray[Any]) -> tuple[int, bytes]:
    values = np.ascontiguousarray(column, "<i8")
    low, high = int(values.min()), int(values.max())
    if low == high:
        return (CONSTANT, struct.pack("<q", low)) if low else (ZERO, b"")
    first, stride = int(values[0]), int(values[1]) - int(values[0])
    if int(values[-1]) - first == stride * (len(values) - 1) and bool((values[1:] - values[:-1] == stride).all()):
        return LINEAR, struct.pack("<qq", first, stride)
    span = high - low
    code = OFFSET1 if span < 1 << 8 else OFFSET2 if span < 1 << 16 else OFFSET4 if span < 1 << 32 else OFFSET8
    offsets = values.view("<u8") - np.uint64(low % (1 << 64))  # wraps around, and so does the way back
    return code, struct.pack("<q", low) + offsets.astype(_OFFSETS[code][0]).tobytes()


def _decode_integers(code: int, data: NDArray[np.uint8], rows: int) -> tuple[NDArray[Any], int]:
    if code == ZERO:
        return np.zeros(len(data) * rows, "<i8"), 0
    if code == CONSTANT:
        return np.repeat(_taken(data, 0, "<i8", 1), rows), 8
    if code == LINEAR:
        first, stride = _taken(data, 0, "<i8", 2).T[:, :, None]
        return (first + stride * np.arange(rows, dtype="<i8")).reshape(-1), 16
    if code not in _OFFSETS:
        raise ValueError("no encoding of integers has this code")
    kind, width = _OFFSETS[code]
    low = _taken(data, 0, "<u8", 1)
    return (_taken(data, 8, kind, rows).astype("<u8") + low).reshape(-1).view("<i8"), 8 + rows * width


def _floats(column: NDArray[Any]) -> tuple[int, bytes]:
    values = np.ascontiguousarray(column, "<f8")
    bits = values.view("<u8")
    if bits[0] == bits[-1] and bool((bits == bits[0]).all()):
        return (CONSTANT, values[:1].tobytes()) if bits[0] else (ZERO, b"")
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        narrow = values.astype("<f4")
        exact = bool((narrow.astype("<f8").view("<u8") == bits).all())
    return (FLOAT4, narrow.tobytes()) if exact else (FLOAT8, values.tobytes())


def _decode_floats(code: int, data: NDArray[np.uint8], rows: int) -> tuple[NDArray[Any], int]:
    if code == ZERO:
        return np.zeros(len(data) * rows, "<f8"), 0
    if code == CONSTANT:
        return np.repeat(_taken(data, 0, "<f8", 1), rows), 8
    if code == FLOAT4:
        return _taken(data, 0, "<f4", rows).astype("<f8").reshape(-1), 4 * rows
    if code == FLOAT8:
        return _taken(data, 0, "<f8", rows).reshape(-1), 8 * rows
    raise ValueError("no encoding of floats has this code")


def _histograms(code: int, data: NDArray[np.uint8], rows: int) -> tuple[NDArray[Any], int]:
    if code != VARINTS:
        raise ValueError("no encoding of histograms has this code")
    sizes = _taken(data, 0, "<u4", 1)[:, 0]
    if (sizes != sizes[0]).any():
        raise ValueError("blocks of different sizes")
    size, start = int(sizes[0]), 4 + rows * 8
    masks = _taken(data, 4, "u1", rows * 8).reshape(-1, 8)
    filled = np.unpackbits(masks, axis=1, bitorder="little").astype(bool)
    counts = np.zeros((len(data) * rows, BINS), "<u4")
    counts[filled] = _leb128(_taken(data, start, "u1", size).reshape(-1))
    return counts, start + size


def _leb128(stream: NDArray[np.uint8]) -> NDArray[np.uint32]:
    ends = np.flatnonzero(stream < 0x80)
    if not len(ends):
        return np.zeros(0, "<u4")
    starts = np.concatenate(([0], ends[:-1] + 1))
    sizes = ends - starts + 1
    if int(sizes.max()) > 5 or int(ends[-1]) != len(stream) - 1:
        raise ValueError("the counts of a histogram are cut off")
    values = (stream[starts] & 0x7F).astype("<u8")
    for k in range(1, int(sizes.max())):
        more = sizes > k
        values[more] |= (stream[starts[more] + k] & 0x7F).astype("<u8") << np.uint64(7 * k)
    return values.astype("<u4")
