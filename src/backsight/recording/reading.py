"""Reading tensors on the training thread, with as little else as can be; the numbers are put in order elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from backsight.recording.statistics import Measured, measure, native
from backsight.recording.statistics._torch import without_overrides
from backsight.runs import BINS, STATISTICS

Raw = tuple[bytearray, bytearray, bytearray]
"""Rows, histograms and sampled counts as the kernel returned them."""

Reading = Raw | Measured
"""The numbers of a list of tensors."""


def read(tensors: Sequence[torch.Tensor], histogram: bool) -> Reading:
    """Read tensors now. As `measure`, but where all are plain, what the kernel returned is left as it is."""
    if native.available():
        held = list(tensors)
        with without_overrides():
            arrays = native.arrays(held)
            if not arrays.others:
                threads = torch.get_num_threads()
                found: Raw = native.kernel.measure(arrays.addresses, arrays.counts, arrays.kinds, histogram, threads)
                return found
    return measure(tensors, histogram=histogram)


class Numbers(NamedTuple):
    """The numbers of several readings one below the other."""

    rows: NDArray[np.void]
    histograms: NDArray[np.uint32] | None
    sampled: NDArray[np.int64] | None
    starts: list[int]
    """The first row of each reading."""


def joined(readings: Sequence[Reading], histogram: bool) -> Numbers:
    """Put the numbers of readings one below the other; waits for those of other devices."""
    raw = [reading if isinstance(reading, tuple) else _raw(reading) for reading in readings]
    starts, start = [], 0
    for rows, _, _ in raw:
        starts.append(start)
        start += len(rows) // STATISTICS.itemsize
    joined_rows = np.frombuffer(b"".join(part[0] for part in raw), STATISTICS)
    if not histogram:
        return Numbers(joined_rows, None, None, starts)
    histograms = np.frombuffer(b"".join(part[1] for part in raw), np.uint32).reshape(-1, BINS)
    return Numbers(joined_rows, histograms, np.frombuffer(b"".join(part[2] for part in raw), np.int64), starts)


def skipped(reading: Reading, position: int) -> str | None:
    """Return why a tensor of a reading has no numbers, or None if it has."""
    return None if isinstance(reading, tuple) else reading.skipped.get(position)


def _raw(measured: Measured) -> tuple[bytes, bytes, bytes]:
    histograms, sampled = measured.histograms, measured.sampled
    return (
        measured.rows.tobytes(),
        b"" if histograms is None else histograms.tobytes(),
        b"" if sampled is None else sampled.tobytes(),
    )
