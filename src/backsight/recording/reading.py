"""Reading tensors on the training thread, with as little else as can be; the numbers are put in order elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from backsight.recording.statistics import Measured, measure, native
from backsight.recording.statistics._torch import without_overrides
from backsight.recording.statistics.source import NATIVE
from backsight.runs import BINS, STATISTICS

RECORD = np.dtype([("row", STATISTICS), ("histogram", "<u4", BINS), ("sampled", "<i8")])
"""One tensor's numbers, as the kernel lays them out; without histograms it is the row alone."""

Reading = bytes | Measured
"""The numbers of a list of tensors: records, or what may have to be waited for."""


def read(tensors: list[torch.Tensor], histogram: bool) -> Reading:
    """Read tensors now. As `measure`, but where all are plain, what the kernel returned is left as it is."""
    if native.available():
        with without_overrides():
            found: bytes | None = native.kernel.read(tensors, native.PLAIN, NATIVE, histogram, torch.get_num_threads())
        if found is not None:
            return found
    return measure(tensors, histogram=histogram)


class Numbers(NamedTuple):
    """The numbers of several readings one below the other."""

    rows: NDArray[np.void]
    histograms: NDArray[np.uint32] | None
    sampled: NDArray[np.int64] | None


def joined(readings: Iterable[Reading], histogram: bool) -> Numbers:
    """Put the numbers of readings one below the other; waits for those of other devices."""
    data = b"".join([reading if isinstance(reading, bytes) else _records(reading, histogram) for reading in readings])
    if not histogram:
        return Numbers(np.frombuffer(data, STATISTICS), None, None)
    records = np.frombuffer(data, RECORD)
    return Numbers(records["row"], records["histogram"], records["sampled"])


def skipped(readings: Sequence[Reading], histogram: bool) -> dict[int, str]:
    """Return why tensors have no numbers, by their place among the numbers of all the readings."""
    found: dict[int, str] = {}
    if all(isinstance(reading, bytes) for reading in readings):
        return found
    start = 0
    for reading in readings:
        if isinstance(reading, bytes):
            start += len(reading) // (RECORD if histogram else STATISTICS).itemsize
        else:
            found.update((start + index, reason) for index, reason in reading.skipped.items())
            start += len(reading.rows)
    return found


def _records(measured: Measured, histogram: bool) -> bytes:
    if not histogram:
        return measured.rows.tobytes()
    records = np.zeros(len(measured.rows), RECORD)
    records["row"], records["histogram"], records["sampled"] = measured.rows, measured.histograms, measured.sampled
    return records.tobytes()
