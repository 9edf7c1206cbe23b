"""What the training thread has read of tensors, as records one below the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from backsight.recording.statistics import Measured
from backsight.runs import BINS, STATISTICS, PackedHistograms

RECORD = np.dtype(
    [("row", STATISTICS), ("sampled", "<i8"), ("filled", "u1", BINS // 8), ("below", "u1", BINS // 8)],
)
"""One tensor's numbers, as the kernel lays them out; without histograms it is the row alone."""


class Records(NamedTuple):
    """Numbers of tensors as the kernel took them down: records, and what is in the bins that are filled."""

    records: bytes
    counts: bytes
    negatives: bytes
    """How many of these are below zero, in the bins where some are."""


Reading = Records | Measured
"""The numbers of some tensors: those that are there, or what may have to be waited for."""


class Numbers(NamedTuple):
    """The numbers of several readings one below the other."""

    rows: NDArray[np.void]
    histograms: PackedHistograms | None
    negatives: PackedHistograms | None
    sampled: NDArray[np.int64] | None


def joined(readings: Iterable[Reading], histogram: bool) -> Numbers:
    """Put the numbers of readings one below the other; waits for other devices, leaves out what was skipped."""
    whole = [reading if isinstance(reading, Records) else _records(reading, histogram) for reading in readings]
    data = b"".join([each.records for each in whole])
    if not histogram:
        return Numbers(np.frombuffer(data, STATISTICS), None, None, None)
    held = np.frombuffer(data, RECORD)
    packed = PackedHistograms(held["filled"], b"".join([each.counts for each in whole]))
    negatives = PackedHistograms(held["below"], b"".join([each.negatives for each in whole]))
    return Numbers(held["row"], packed, negatives, held["sampled"])


def skipped(readings: Iterable[Reading], histogram: bool) -> dict[int, str]:
    """Return why rows have no numbers, by their place."""
    found: dict[int, str] = {}
    start = 0
    for reading in readings:
        if isinstance(reading, Records):
            start += len(reading.records) // (RECORD if histogram else STATISTICS).itemsize
        else:
            found.update((start + index, reason) for index, reason in reading.skipped.items())
            start += len(reading.rows)
    return found


def _records(measured: Measured, histogram: bool) -> Records:
    there = np.array([index not in measured.skipped for index in range(len(measured.rows))], bool)
    rows, histograms, negatives = measured.rows[there], measured.histograms, measured.negatives
    if not histogram or histograms is None or negatives is None or measured.sampled is None:
        return Records(rows.tobytes(), b"", b"")
    packed, below = PackedHistograms.of(histograms[there]), PackedHistograms.of(negatives[there])
    records = np.zeros(len(rows), RECORD)
    records["row"], records["sampled"] = rows, measured.sampled[there]
    records["filled"], records["below"] = packed.filled, below.filled
    return Records(records.tobytes(), packed.counts, below.counts)
