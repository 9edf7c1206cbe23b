"""The file of a trace: frames with checksums, one behind the other, so that what was written before a kill is readable.

A folder holds a file a process, `0.trace` for rank 0. A file begins with `BSTRACE1`; a frame is a header (its kind, the
length of its payload, the CRC-32 of both) and a payload that zlib has packed. Kinds:

    H  JSON: where and how the program ran, and which steps are asked for
    B  JSON: a step begins, with what the program had set
    P  rows of PRINT, in the order of their numbers
    K  a whole tensor: the number of its fingerprint, then the bytes of a .npy file
    V  JSON: a list of values, as lists of the fields of `Value` without their numbers, in the order of these
    O  JSON: a list of operations, as lists of the fields of `Operation`, with the place as a list
    S  JSON: a list of what was held at the beginning or end of a step, as lists of the fields of `Held`
    D  JSON: a list of what is part of a DTensor: the number of the value, then the fields of `Shard`
    M  JSON: a list of where weights and buffers come from: the number of the value, then the fields of `Made`, with the
       place as a list
    L  JSON: a list of summaries of steps, as lists: the step, the numbers of optimizers where they have changed, a
       digest, and the norms of gradients and of weights as float32 in Base64
    N  JSON: a sentence on what is not traced
    E  JSON: a step has ended, with the hyperparameters of its optimizers
"""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from backsight.runs import TRACE, RunError
from backsight.runs.files import opened
from backsight.traces.errors import TraceError
from backsight.traces.reading import Damaged, Reading
from backsight.traces.records import Trace

MAGIC = b"BSTRACE1"
_FAMILY = b"BSTRACE"
_FRAME = struct.Struct("<cII")
_LARGEST = 1 << 30
"""Bytes of the unpacked payload of one frame; a writer makes frames of a few megabytes."""


class Writer:
    """Appends frames to a file that must not be there yet.

    Raises:
        OSError: if it is, or cannot be written.
    """

    def __init__(self, path: Path):
        self._file: Any = open(path, "xb", buffering=0)  # noqa: SIM115  # as long as the trace
        self._file.write(MAGIC)

    def put(self, kind: bytes, payload: bytes, level: int = 1) -> None:
        packed = zlib.compress(payload, level)
        checksum = zlib.crc32(packed, zlib.crc32(kind))
        self._file.write(_FRAME.pack(kind, len(packed), checksum) + packed)

    def say(self, kind: bytes, content: Any) -> None:
        self.put(kind, json.dumps(content, separators=(",", ":")).encode())

    def keep(self, number: int, array: NDArray[Any]) -> None:
        head = struct.pack("<q", number) + _npy_head(array.dtype, array.shape)
        self.put(b"K", head + array.tobytes(), 0)  # weights and activations do not get smaller

    def close(self) -> None:
        self._file.close()


@cache
def _npy_head(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return how a .npy file of such an array begins, in the order of its elements."""
    head = io.BytesIO()
    said = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(head, said)
    return head.getvalue()


def files_of(path: Path) -> dict[int, Path]:
    """Return the files of a trace by rank."""
    return {int(each.stem): each for each in path.glob("*.trace") if each.stem.isdecimal() and len(each.stem) < 10}


def free_folder(path: Path, rank: int) -> Path:
    """Return the folder, or the one beside it that a trace goes to where there is one of this rank in it already."""
    free, number = path, 2
    while (free / f"{rank}.trace").exists() or free.is_file():
        free, number = path.with_name(f"{path.name or 'trace'}-{number}"), number + 1
    return free


def open_trace(path: str | os.PathLike[str], rank: int = 0) -> Trace:
    """Open what `backsight run --trace` or `trace` wrote.

    ```python
    trace = bs.open_trace("traces/first")
    len(trace.operations), trace.notes
    ```

    What a kill or damage has left is read as far as it goes, and `notes` says what is missing.

    Raises:
        TraceError: if there is no trace, nothing of it can be read, or a later backsight has written it.
    """
    folder = Path(path)
    if not folder.exists():
        raise TraceError(f"there is no trace at {folder}: give the folder that `backsight run --trace` named.")
    found = {} if folder.is_file() else files_of(folder)
    if folder.is_file() and folder.suffix == ".trace":
        found = {rank: folder}
    if not found and (folder / TRACE).is_dir():  # of a recording
        return open_trace(folder / TRACE, rank)
    if not found and folder.suffix == ".py":
        raise TraceError(
            f'{folder} is a script, not a trace. Let diff run both: backsight diff -- "python {folder}" "python ...".'
        )
    if not found:
        raise TraceError(
            f"{folder} holds no trace.\n"
            "  A trace of a program: backsight run --trace steps=0 train.py\n"
            "  Two recordings side by side: backsight runs show A B"
        )
    if rank not in found:
        raise TraceError(f"{folder} has no rank {rank}; it has {', '.join(map(str, sorted(found)))}.")
    try:
        with opened(found[rank]) as file:
            data = file.readall()
    except RunError as failure:
        raise TraceError(str(failure)) from None
    except FileNotFoundError:
        raise TraceError(f"there is no trace at {found[rank]} any more.") from None
    return _read(str(folder), rank, data)


def ranks_of(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """Return the ranks that a trace has."""
    folder = Path(path)
    found = files_of(folder) if folder.is_dir() else {0: folder}
    return tuple(sorted(found or files_of(folder / TRACE)))


def _read(path: str, rank: int, data: bytes) -> Trace:
    if data[: len(MAGIC)] != MAGIC:
        if data.startswith(_FAMILY):
            raise TraceError(f"{path} was written by a later backsight: update with `pip install -U backsight`.")
        raise TraceError(f"{path} is not a trace, or its beginning is damaged: trace the program again.")
    reading = Reading()
    position = len(MAGIC)
    try:
        while position < len(data):
            kind, payload, after = _frame(data, position)
            reading.take(kind, payload)
            position = after
    except Damaged:
        reading.notes.append(f"damaged {position:,} bytes from its beginning: the rest is not read")
    except _CutOff:
        reading.notes.append("the program was killed while it wrote: the end of the trace is missing")
    if not reading.head:
        raise TraceError(f"the trace {path} is empty: the program ended before it wrote anything. Trace it again.")
    return reading.trace(path, rank)


class _CutOff(Exception):
    """The last frame is not whole."""


def _frame(data: bytes, position: int) -> tuple[bytes, bytes, int]:
    """Return kind and payload of a frame, and where it ends; what comes behind a bad one rests on it."""
    begin = position + _FRAME.size
    if begin > len(data):
        raise _CutOff
    kind, length, checksum = _FRAME.unpack_from(data, position)
    packed = data[begin : begin + length]
    if len(packed) < length:
        raise _CutOff
    if zlib.crc32(packed, zlib.crc32(kind)) != checksum:
        raise Damaged
    unpacking = zlib.decompressobj()
    try:
        payload = unpacking.decompress(packed, _LARGEST)
    except zlib.error as failure:
        raise Damaged from failure
    if not unpacking.eof:
        raise Damaged
    return kind, payload, begin + length
