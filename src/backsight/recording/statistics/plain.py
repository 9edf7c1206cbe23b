"""The same statistics by PyTorch's own operations, where neither the C kernel nor Triton's measure.

Nothing here waits for the device: all operations are queued, one buffer takes the numbers, and one asynchronous copy
brings them over. Who looks at them waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from backsight.recording.statistics._torch import beside_captures
from backsight.recording.statistics.measured import FIELDS, WIDTH, Parts
from backsight.runs import BINS, LOWEST_EXPONENT

WHOLE, SAMPLE, PERIOD = 64 * 1024, 512, 16 * 512
"""The histogram looks at all of a tensor of up to WHOLE elements, and at SAMPLE of every PERIOD of a larger one."""

_CHUNK = 8 * PERIOD  # what the second-level cache holds, as float64
_LARGE_CHUNK = 512 * PERIOD  # on a device each operation costs a launch


class Queued(NamedTuple):
    """Numbers that a device was told to find: row k is of tensor `indexes[k]`, all of it or a part."""

    indexes: list[int]
    rows: torch.Tensor


def queued(tensors: dict[int, torch.Tensor], histogram: bool) -> Queued:
    """Queue the operations that measure contiguous tensors of one device."""
    parts: list[torch.Tensor] = []
    indexes: list[int] = []
    for index, numbers in tensors.items():
        found = list(_parts(numbers.reshape(-1), histogram))
        indexes += [index] * len(found)
        parts += found
    return Queued(indexes, torch.stack(parts) if parts else torch.zeros((0, WIDTH)))


class OnTheWay:
    """The numbers of tensors of one device, in one buffer that crosses once, without anybody waiting.

    order: the row of each tensor, if rows are in another order or some are wanted more than once.
    """

    def __init__(self, *queued: Queued, order: list[int] | None = None) -> None:
        self._indexes = [index for each in queued for index in each.indexes] if order is None else [*range(len(order))]
        self._order = order
        filled = [each.rows for each in queued if len(each.rows)]
        self._buffer = torch.cat(filled) if len(filled) > 1 else (filled or [torch.zeros((0, WIDTH))])[0]
        self._event = None
        device = self._buffer.device
        if device.type != "cpu":
            pinned = device.type == "cuda"
            host = torch.empty(self._buffer.shape, dtype=self._buffer.dtype, pin_memory=pinned)
            self._buffer = host.copy_(self._buffer, non_blocking=pinned)
            self._event = torch.cuda.current_stream(device).record_event() if pinned else None

    def arrived(self) -> tuple[list[int], Parts]:
        """Wait for the copy, and return which tensor each row is of, and the rows."""
        if self._event is not None:
            with beside_captures():
                self._event.synchronize()
        held = self._buffer.double().numpy()
        return self._indexes, held if self._order is None else held[self._order]


def _parts(numbers: torch.Tensor, histogram: bool) -> Iterator[torch.Tensor]:
    size = _CHUNK if numbers.is_cpu else _LARGE_CHUNK
    sample = PERIOD if numbers.numel() <= WHOLE else SAMPLE
    for start in range(0, numbers.numel(), size):
        chunk = numbers[start : start + size]
        wide = chunk.to(torch.float32 if chunk.device.type == "mps" else torch.float64)  # MPS has no float64
        row = _row(wide)
        sampled = _sampled(wide, sample) if histogram else wide[:0]
        yield torch.cat((row, row.new_full((1,), sampled.numel()), _histogram(sampled)))


def _row(x: torch.Tensor) -> torch.Tensor:
    """Return the statistics in the order of STATISTICS. Sums are of quotients, as sums of the largest overflow."""
    # a sum is finite only if all is, but on a device, to know would be to wait
    finite = None if x.is_cpu and x.sum().isfinite() else x.isfinite()
    n = torch.tensor(x.numel()) if finite is None else finite.sum()
    nans = torch.tensor(0) if finite is None else x.isnan().sum()

    def kept(numbers: torch.Tensor, other: float) -> torch.Tensor:
        return numbers if finite is None else torch.where(finite, numbers, other)

    share = 1 / n.clamp(min=1).to(x.dtype)
    first = (kept(x, 0) * share).sum()
    away = kept(x - first, 0)
    drift = (away * share).sum().nan_to_num(0, 0, 0)
    m2 = (away.square().sum() - drift.square() * n).nan_to_num(torch.inf, torch.inf, torch.inf).clamp(min=0)
    low, high = kept(x, torch.inf).min(), kept(x, -torch.inf).max()
    named = {
        "count": torch.full_like(first, x.numel()),
        "mean": torch.where(low == high, low, first + drift),  # exact where all are equal
        "m2": torch.where(low == high, 0, m2),
        "min": low,
        "max": high,
        "zeros": (x == 0).sum(),
        "nans": nans,
        "infs": x.numel() - n - nans,
    }
    return torch.stack([named[name].to(x.dtype) for name in FIELDS])


def _sampled(x: torch.Tensor, sample: int) -> torch.Tensor:
    """Return the first `sample` of every PERIOD elements."""
    whole = x.numel() // PERIOD * PERIOD
    return torch.cat((x[:whole].view(-1, PERIOD)[:, :sample].reshape(-1), x[whole:][:sample]))


def _histogram(x: torch.Tensor) -> torch.Tensor:
    """Count the finite, non-zero elements by the exponent in their bits: those above zero, then those below."""
    if x.dtype == torch.float64:
        exponent = (x.view(torch.int64) >> 52 & 0x7FF) - 1023
    else:
        exponent = (x.view(torch.int32) >> 23 & 0xFF) - 127
    bins = (exponent - LOWEST_EXPONENT).clamp(0, BINS - 1).long() + BINS * (x < 0)
    counted = (x.isfinite() & (x != 0)).to(x.dtype)
    return x.new_zeros(2 * BINS).scatter_add_(0, bins, counted)
