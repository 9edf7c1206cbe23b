"""Event files of TensorBoard, written without it: records of a few protocol buffer fields, each with two checksums.

Fields: `Event` in tensorboard/compat/proto/event.proto (wall_time 1, step 2, file_version 3, summary 5) and `Summary`
in summary.proto (value 1; in it tag 1, simple_value 2). Framing and checksums: tsl/lib/io/record_writer.h. The
checksums (CRC-32C) of many records of one length are computed at once, column by column.
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

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> EventFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

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


def _float(value: float) -> bytes:
    return b"\x15" + struct.pack("<f", value)
