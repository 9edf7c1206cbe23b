"""The kernels for tensors of a device: the chunks of one, or of many, in a launch, and what they become in another.

To be imported only where Triton is. A lane of a program meets every BLOCKth number of its chunk and keeps sums of its
own about the first that it met; Chan's formula makes lanes a chunk, and chunks a tensor, always in the same order.
Sums are of float64, which holds the square of any smaller type; only those of float64 itself can overflow.

What they cost on a GPU is in docs/performance.md.
"""

# Triton's decorator is untyped, and its functions are not Python's: what they are given are values of the device.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, misc"

from __future__ import annotations

import triton  # type: ignore[import-not-found,unused-ignore]  # only PyTorch's wheels for devices bring it
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]  # as above

from backsight.recording.statistics.measured import FIELDS, WIDTH
from backsight.recording.statistics.plain import PERIOD, SAMPLE, WHOLE
from backsight.runs import BINS, LOWEST_EXPONENT

BLOCK = 1024
"""Lanes of a program: a divisor of PERIOD."""

MOST_CHUNKS = 1024
"""Of a tensor: one program takes them all in at once."""

COLUMNS = 5
"""Of the table of tensors: address, count, place of the type in NATIVE, row of the first chunk, numbers of a chunk."""

# a kernel reads no other globals than these
_BLOCK, _MOST_CHUNKS, _COLUMNS = tl.constexpr(BLOCK), tl.constexpr(MOST_CHUNKS), tl.constexpr(COLUMNS)
_PERIOD, _SAMPLE, _WHOLE = tl.constexpr(PERIOD), tl.constexpr(SAMPLE), tl.constexpr(WHOLE)
_BINS, _LOWEST = tl.constexpr(BINS), tl.constexpr(LOWEST_EXPONENT)
_FIELDS, _WIDTH = tl.constexpr(len(FIELDS)), tl.constexpr(WIDTH)
_INFINITY = tl.constexpr(float("inf"))
_SMALLER = tl.constexpr(2.0**-64)  # times which no sum of float64 overflows
_TILE = tl.constexpr(32)  # chunks whose histograms are added at a time


@triton.jit
def measure_chunks(table, owners, rows, histograms, HISTOGRAM: tl.constexpr):
    """Measure the chunk of this program, of many tensors."""
    program = tl.program_id(0)
    entry = table + tl.load(owners + program) * _COLUMNS
    address, count, kind, size = tl.load(entry), tl.load(entry + 1), tl.load(entry + 2), tl.load(entry + 4)
    chunk = program - tl.load(entry + 3)
    _measure(address, count, kind, chunk, size, program.to(tl.int64), rows, histograms, HISTOGRAM)


@triton.jit(do_not_specialize=["address", "count", "kind", "first", "size"])
def measure_tensor(address, count, kind, first, size, rows, histograms, HISTOGRAM: tl.constexpr):
    """Measure the chunk of this program, of one tensor whose rows begin at `first`."""
    chunk = tl.program_id(0).to(tl.int64)
    _measure(address, count, kind, chunk, size, first + chunk, rows, histograms, HISTOGRAM)


@triton.jit
def _measure(address, count, kind, chunk, size, at, rows, histograms, HISTOGRAM: tl.constexpr):
    """Write the row, and the histogram, of a chunk of a tensor, at a place among all rows."""
    start = chunk * size
    end = tl.minimum(start + size, count)
    row = rows + at * (_FIELDS + 1)
    _sum(address, kind, start, end, row)
    sampled = tl.zeros((), tl.int64)
    if HISTOGRAM:
        sample = tl.where(count <= _WHOLE, _PERIOD, _SAMPLE)
        sampled = _tally(address, kind, start, end, sample, histograms + at * 2 * _BINS)
    tl.store(row + _FIELDS, sampled.to(tl.float64))


@triton.jit
def merge_chunks(table, rows, histograms, out, HISTOGRAM: tl.constexpr):
    """Write the numbers of the tensor of this program: a part as `measured.joined` takes it."""
    tensor = tl.program_id(0).to(tl.int64)
    entry = table + tensor * _COLUMNS
    first, count, size = tl.load(entry + 3), tl.load(entry + 1), tl.load(entry + 4)
    chunks = (count + size - 1) // size
    each = tl.arange(0, _MOST_CHUNKS)
    there = each < chunks
    row = rows + (first + each) * (_FIELDS + 1)
    low = tl.min(tl.load(row + 3, there, other=_INFINITY))
    high = tl.max(tl.load(row + 4, there, other=-_INFINITY))
    zeros, nans = tl.sum(tl.load(row + 5, there, other=0.0)), tl.sum(tl.load(row + 6, there, other=0.0))
    infs, sampled = tl.sum(tl.load(row + 7, there, other=0.0)), tl.sum(tl.load(row + 8, there, other=0.0))
    n = tl.load(row, there, other=0.0) - tl.load(row + 6, there, other=0.0) - tl.load(row + 7, there, other=0.0)
    mean, m2 = _merged(n, tl.load(row + 1, there, other=0.0), tl.load(row + 2, there, other=0.0), low, high)
    part = out + tensor * _WIDTH
    _store(part, count.to(tl.float64), mean, m2, low, high, zeros, nans, infs)
    tl.store(part + _FIELDS, sampled)
    if HISTOGRAM:
        _add_histograms(histograms + first * 2 * _BINS, chunks, part + _FIELDS + 1)


@triton.jit
def _load(address, kind, at, there):
    """Numbers as float64: the codes are places in NATIVE."""
    if kind == 0:
        x = tl.load(address.to(tl.pointer_type(tl.float32)) + at, there, other=0.0).to(tl.float64)
    elif kind == 1:
        x = tl.load(address.to(tl.pointer_type(tl.float64)) + at, there, other=0.0)
    elif kind == 2:
        x = tl.load(address.to(tl.pointer_type(tl.bfloat16)) + at, there, other=0.0).to(tl.float32).to(tl.float64)
    elif kind == 3:
        x = tl.load(address.to(tl.pointer_type(tl.float16)) + at, there, other=0.0).to(tl.float64)
    elif kind == 4:
        x = tl.load(address.to(tl.pointer_type(tl.int8)) + at, there, other=0).to(tl.float64)
    elif kind == 5:
        x = tl.load(address.to(tl.pointer_type(tl.int16)) + at, there, other=0).to(tl.float64)
    elif kind == 6:
        x = tl.load(address.to(tl.pointer_type(tl.int32)) + at, there, other=0).to(tl.float64)
    elif kind == 7:
        x = tl.load(address.to(tl.pointer_type(tl.int64)) + at, there, other=0).to(tl.float64)
    else:  # of one byte each, and none of them below zero
        x = tl.load(address.to(tl.pointer_type(tl.uint8)) + at, there, other=0).to(tl.float64)
    return x


@triton.jit
def _sum(address, kind, start, end, row):
    """Write the statistics of a stretch of numbers."""
    lane = tl.arange(0, _BLOCK)
    n, zeros, nans = tl.zeros((_BLOCK,), tl.int32), tl.zeros((_BLOCK,), tl.int32), tl.zeros((_BLOCK,), tl.int32)
    centre, total = tl.zeros((_BLOCK,), tl.float64), tl.zeros((_BLOCK,), tl.float64)
    squares = tl.zeros((_BLOCK,), tl.float64)
    low = tl.full((_BLOCK,), float("inf"), tl.float64)
    high = tl.full((_BLOCK,), float("-inf"), tl.float64)
    for at in range(start, end, _BLOCK):
        there = at + lane < end
        x = _load(address, kind, at + lane, there)
        finite = there & (tl.abs(x) < _INFINITY)
        centre = tl.where(finite & (n == 0), x, centre)
        away = tl.where(finite, x - centre, 0.0)
        n += finite.to(tl.int32)
        nans += (there & (x != x)).to(tl.int32)
        zeros += (there & (x == 0)).to(tl.int32)
        total += away
        squares += away * away
        low = tl.minimum(low, tl.where(finite, x, _INFINITY))
        high = tl.maximum(high, tl.where(finite, x, -_INFINITY))
    share = 1.0 / tl.maximum(n, 1).to(tl.float64)
    mean = centre + total * share
    m2 = squares - total * total * share
    m2 = tl.where(m2 < _INFINITY, tl.maximum(m2, 0.0), _INFINITY)  # NaN is what two infinities left
    if tl.sum((tl.abs(mean) < _INFINITY).to(tl.int32)) < _BLOCK:
        mean = _mean_of_large(address, kind, start, end, share)
    lowest, highest = tl.min(low), tl.max(high)
    mean, m2 = _merged(n.to(tl.float64), mean, m2, lowest, highest)
    kept, unknown = tl.sum(n).to(tl.float64), tl.sum(nans).to(tl.float64)
    count = (end - start).to(tl.float64)
    _store(row, count, mean, m2, lowest, highest, tl.sum(zeros).to(tl.float64), unknown, count - kept - unknown)


@triton.jit
def _mean_of_large(address, kind, start, end, share):
    """The mean of each lane, of numbers whose sum is more than float64 holds."""
    lane = tl.arange(0, _BLOCK)
    total = tl.zeros((_BLOCK,), tl.float64)
    for at in range(start, end, _BLOCK):
        x = _load(address, kind, at + lane, at + lane < end)
        total += tl.where(tl.abs(x) < _INFINITY, x * _SMALLER, 0.0)
    return total * share / _SMALLER


@triton.jit
def _merged(n, mean, m2, low, high):
    """Mean and m2 of all from those of parts, by Chan's formula as in `measured.joined`; exact where all are equal."""
    share = n / tl.maximum(tl.sum(n), 1.0)
    lowest = tl.min(tl.where(n > 0, mean, _INFINITY))
    whole = lowest + tl.sum(tl.where(n > 0, (mean - lowest) * share, 0.0))
    whole = tl.where(tl.abs(whole) < _INFINITY, whole, tl.sum(tl.where(n > 0, mean * share, 0.0)))
    whole = tl.where(low == high, low, whole)
    apart = mean - whole
    spread = tl.sum(tl.where(n > 0, m2 + n * apart * apart, 0.0))
    return whole, tl.where(low == high, 0.0, spread)


@triton.jit
def _store(row, count, mean, m2, low, high, zeros, nans, infs):
    """Write a row, in the order of STATISTICS."""
    tl.store(row, count)
    tl.store(row + 1, mean)
    tl.store(row + 2, m2)
    tl.store(row + 3, low)
    tl.store(row + 4, high)
    tl.store(row + 5, zeros)
    tl.store(row + 6, nans)
    tl.store(row + 7, infs)


@triton.jit
def _tally(address, kind, start, end, sample, histogram):
    """Write the histograms of `sample` of every PERIOD numbers, by sign, and return how many these were."""
    lane = tl.arange(0, _BLOCK)
    bins = tl.zeros((4 * _BINS,), tl.int32)
    sampled = tl.zeros((), tl.int64)
    for period in range(start, end, _PERIOD):
        stop = tl.minimum(period + sample, end)
        for at in range(period, stop, _BLOCK):
            looked_at = at + lane < stop
            x = _load(address, kind, at + lane, looked_at)
            exponent = (x.to(tl.int64, bitcast=True) >> 52) & 0x7FF
            bin = tl.minimum(tl.maximum(exponent - 1023 - _LOWEST, 0), _BINS - 1)
            counted = looked_at & (x != 0) & (tl.abs(x) < _INFINITY)
            side = tl.where(x < 0, bin + _BINS, bin)
            # the upper half is for what is not counted: not every Triton's histogram takes a mask
            bins += tl.histogram(tl.where(counted, side, 2 * _BINS).to(tl.int32), 4 * _BINS)
            sampled += tl.sum(looked_at.to(tl.int64))
    each = tl.arange(0, 4 * _BINS)
    tl.store(histogram + each, bins, each < 2 * _BINS)
    return sampled


@triton.jit
def _add_histograms(histograms, chunks, out):
    """Write the sum of so many histograms."""
    bin, tile = tl.arange(0, 2 * _BINS), tl.arange(0, _TILE)
    total = tl.zeros((2 * _BINS,), tl.int64)
    for chunk in range(0, chunks, _TILE):
        there = (chunk + tile < chunks)[:, None]
        found = tl.load(histograms + (chunk + tile)[:, None] * 2 * _BINS + bin[None, :], there, other=0)
        total += tl.sum(found.to(tl.int64), 0)
    tl.store(out + bin, total.to(tl.float64))
