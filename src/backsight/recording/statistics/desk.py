"""Tensors of a device that come one after the other: each is measured by a launch, and all cross together."""

from __future__ import annotations

import weakref
from array import array

import torch

from backsight.recording.statistics import triton_launch
from backsight.recording.statistics._torch import stream_of, without_modes, without_overrides
from backsight.recording.statistics.measured import Measured, unmeasured
from backsight.recording.statistics.plain import OnTheWay, Queued
from backsight.tape import is_captured, version

ROWS = 8192
"""Chunks on a desk, of 600 bytes each."""


class Desk:
    """Where tensors of one device are measured one after the other, in the order of one stream; made by `desk_for`.

    Each is read by a launch of its own, as it may be gone or modified in a moment, but the output of one module is the
    input of the next: the same tensor at the same version is read once. Merging the chunks of them all is one launch,
    and bringing over the numbers is one copy.

        desk = desk_for(tensor, histogram=True)
        if desk is not None and desk.put(tensor):
            desk.measured().rows
    """

    def __init__(self, device: torch.device, histogram: bool):
        self._device, self._stream, self._histogram = device, stream_of(device), histogram
        self._rows, self._counts = triton_launch.for_chunks(ROWS, device, histogram)
        self._table = array("q")
        self._filled = self._tensors = 0
        self._order: list[int] = []
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], int, int]] = {}

    def put(self, tensor: torch.Tensor) -> bool:
        """Measure a tensor, and say whether it was: not if it is of another device or kind, or if the desk is full."""
        known, at = self._known.get(id(tensor)), version(tensor)
        if known is not None and known[1] == at and known[0]() is tensor:
            self._order.append(known[2])
            return True
        if tensor.device != self._device or stream_of(self._device) != self._stream or not _can_be_put(tensor):
            return False
        number = self._measure(tensor)
        if number is None:
            return False
        self._order.append(number)
        if at is not None:
            self._known[id(tensor)] = weakref.ref(tensor), at, number
        return True

    def _measure(self, tensor: torch.Tensor) -> int | None:
        """Launch the kernel; return which of the tensors here this is, or None if there is no room, or no kernel."""
        programs, count, first = triton_launch.kernel(), tensor.numel(), self._filled
        kind, size = triton_launch.KINDS[tensor.dtype], triton_launch.size_of_chunks(count, programs.MOST_CHUNKS)
        chunks = -(-count // size)
        if first + chunks > ROWS:
            return None
        if chunks:
            try:
                with triton_launch.current(self._device):
                    programs.measure_tensor[(chunks,)](
                        tensor.data_ptr(), count, kind, first, size, self._rows, self._counts, HISTOGRAM=self._histogram
                    )
            except Exception as error:  # a compiler can fail in any way; the training goes on
                triton_launch.give_up(error)
                return None
        self._table.extend((0, count, kind, first, size))
        self._filled += chunks
        self._tensors += 1
        return self._tensors - 1

    def measured(self) -> Measured:
        """Return the numbers of what was put, in its order. Nothing is waited for, and nothing can be put any more."""
        order, numbers = self._order, unmeasured(len(self._order), self._histogram)
        if is_captured():
            return Measured(
                numbers, dict.fromkeys(range(len(order)), "is of a step that ended in a captured CUDA graph")
            )
        failed = dict.fromkeys(range(len(order)), "was being measured when the Triton kernel failed")
        if not order or triton_launch.kernel() is None:
            return Measured(numbers, failed)
        here = triton_launch.in_stream(self._device, self._stream)
        try:
            with without_overrides(), torch.no_grad(), without_modes(), here:
                table = triton_launch.sent(self._table, self._device)
                out = triton_launch.merged(table, self._rows, self._counts, self._histogram)
                return Measured(numbers, {}, (OnTheWay(Queued([], out), order=order),))
        except Exception as error:  # as above
            triton_launch.give_up(error)
            return Measured(numbers, failed)


def desk_for(tensor: torch.Tensor, histogram: bool) -> Desk | None:
    """Return a new desk for a tensor; None if it has to be measured in another way."""
    if not _can_be_put(tensor):
        return None
    with without_overrides(), torch.no_grad(), without_modes():
        return Desk(tensor.device, histogram)


def _can_be_put(tensor: torch.Tensor) -> bool:
    return triton_launch.lies_there(tensor) and triton_launch.kernel() is not None and not is_captured()
