"""Event files of TensorBoard, written without it: records of a few protocol buffer fields, each with two checksums.

Fields: `Event` in tensorboard/compat/proto/event.proto (wall_time 1, step 2, file_version 3, summary 5), `Summary` in
summary.proto (value 1; in it tag 1, simple_value 2, histo 5, tensor 8, metadata 9), `HistogramProto` in histogram.proto
(min 1, max 2, num 3, sum 4, sum_squares 5, bucket_limit 6, bucket 7) and `TensorProto` in tensor.proto (dtype 1,
tensor_shape 2, string_val 8). Framing and checksums: tsl/lib/io/record_writer.h. The checksums (CRC-32C) of many
records of one length are computed at once, column by column.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from backsight.runs.catalogue import Catalogue
from backsight.runs.frame import table
from backsight.runs.gathering import Query
from backsight.runs.rank import Rank
from backsight.runs.schema import RUNNING

_POLYNOMIAL = 0x82F63B78  # CRC-32C (Castagnoli), bits reversed
_MASK_DELTA = 0xA282EAD8  # tsl/lib/hash/crc32c.h


class EventFile:
    """A file `events.out.tfevents...` in a folder of its own or a shared one.

    with EventFile(folder, begun) as events:
        events.scalars("weight/fc.weight/std", steps, times, values)
    """

    def __init__(self, folder: Path, begun: float):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"events.out.tfevents.{int(begun):010d}.backsight.{os.getpid()}"
        self._file: IO[bytes] = self.path.open("wb")
        self._write([struct.pack("<Bd", 0x09, begun) + _bytes(3, b"brain.Event:2")])

    def scalars(self, tag: str, steps: Sequence[int], times: Sequence[float], values: NDArray[np.float64]) -> None:
        """Write a value of one tag for each step."""
        name = _bytes(1, tag.encode("utf-8", "backslashreplace"))
        with np.errstate(over="ignore"):
            held = values.astype("<f4").tolist()
        self._write(
            struct.pack("<Bd", 0x09, time) + b"\x10" + _varint(step) + _bytes(5, _bytes(1, name + _float(value)))
            for step, time, value in zip(steps, times, held, strict=True)
        )

    def histogram(
        self, tag: str, step: int, time: float, edges: NDArray[np.float64], counts: NDArray[np.int64]
    ) -> None:
        """Write a histogram: [n + 1] edges, [n] counts; sums are those of the middles of the bins."""
        filled = np.flatnonzero(counts)
        if not len(filled):
            return
        first, last = int(filled[0]), int(filled[-1]) + 1
        held, middles = counts[first:last].astype("<f8"), (edges[first:last] + edges[first + 1 : last + 1]) / 2
        sums = held.sum(), (held * middles).sum(), (held * middles**2).sum()
        numbers = b"".join(_double(k + 1, x) for k, x in enumerate((edges[first], edges[last], *sums)))
        limits, buckets = edges[first + 1 : last + 1].astype("<f8").tobytes(), held.tobytes()
        self._value(tag, step, time, _bytes(5, numbers + _bytes(6, limits) + _bytes(7, buckets)))

    def text(self, tag: str, step: int, time: float, text: str) -> None:
        """Write a text, which is shown as Markdown."""
        one_string = b"\x08\x07" + _bytes(2, _bytes(2, b"\x08\x01")) + _bytes(8, text.encode("utf-8", "replace"))
        self._value(tag, step, time, _bytes(8, one_string) + _bytes(9, _bytes(1, _bytes(1, b"text"))))

    def flush(self) -> None:
        """Let who reads the file see what has been written."""
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> EventFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _value(self, tag: str, step: int, time: float, value: bytes) -> None:
        named = _bytes(1, tag.encode("utf-8", "backslashreplace")) + value
        self._write([struct.pack("<Bd", 0x09, time) + b"\x10" + _varint(step) + _bytes(5, _bytes(1, named))])

    def _write(self, records: Iterator[bytes] | list[bytes]) -> None:
        held = list(records)
        lengths = [struct.pack("<Q", len(record)) for record in held]
        for record, length, head, tail in zip(held, lengths, _masked(lengths), _masked(held), strict=True):
            self._file.write(length + head + record + tail)


def write_scalars(
    folder: Path, ranks: dict[int, Rank], known: Catalogue, stats: Sequence[str], times: dict[int, float], begun: float
) -> Path:
    """Write statistics and metrics of every tensor, ranks merged, and return the path of the event file."""
    with EventFile(folder, begun) as events:
        for name, kind in known.tensors:
            rows = table(ranks, known, Query(((name, kind),)), stats)
            for suffix, which in _by_call(np.asarray(rows["step"]), np.asarray(rows["call"]), kind in RUNNING):
                steps = np.asarray(rows["step"])[which].tolist()
                at = [times.get(step, begun) for step in steps]
                for stat in stats:
                    if stat in rows:
                        values = np.asarray(rows[stat])[which].astype("<f8")
                        events.scalars(f"{kind}/{name}/{stat}{suffix}", steps, at, values)
    return events.path


def _by_call(
    steps: NDArray[np.int64], calls: NDArray[np.int64], running: bool
) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Yield what is added to a tag, and the rows under it: nothing where no step has a second call, else each call.

    running: whether the last call of a step stands for it, as of a gradient that is accumulated; it has the tag too.
    """
    if running or not calls.any():
        in_order = np.lexsort((calls, steps))
        last = np.append(steps[in_order][1:] != steps[in_order][:-1], True) if len(steps) else np.zeros(0, bool)
        yield "", in_order[last]
    if calls.any():
        for call in np.unique(calls).tolist():
            which = np.flatnonzero(calls == call)
            yield f"/call {call}", which[np.argsort(steps[which], kind="stable")]


def crc32c(records: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the CRC-32C of each row of bytes."""
    found = np.full(len(records), 0xFFFFFFFF, "<u4")
    for column in records.T:
        found = _TABLE[(found ^ column) & 0xFF] ^ (found >> np.uint32(8))
    out: NDArray[np.uint32] = found ^ np.uint32(0xFFFFFFFF)
    return out


def _masked(records: Sequence[bytes]) -> list[bytes]:
    """Return the masked checksum of each record, those of one length together."""
    out = [b""] * len(records)
    by_length: dict[int, list[int]] = {}
    for k, record in enumerate(records):
        by_length.setdefault(len(record), []).append(k)
    for length, positions in by_length.items():
        data = np.frombuffer(b"".join(records[k] for k in positions), "u1").reshape(-1, length)
        crc = crc32c(data)
        masked = ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(_MASK_DELTA)
        for k, value in zip(positions, masked.tolist(), strict=True):
            out[k] = struct.pack("<I", value)
    return out


def _table() -> NDArray[np.uint32]:
    values = np.arange(256, dtype="<u4")
    for _ in range(8):
        values = (values >> np.uint32(1)) ^ np.where(values & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return values


_TABLE = _table()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(field: int, data: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(data)) + data


def _double(field: int, value: float) -> bytes:
    return struct.pack("<Bd", field << 3 | 1, value)


def _float(value: float) -> bytes:
    return b"\x15" + struct.pack("<f", value)
