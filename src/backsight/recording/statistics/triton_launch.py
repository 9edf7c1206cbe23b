"""Where the Triton kernels measure, and how they are told what: by address, without waiting for the device.

Where Triton is missing, or will not compile the kernels, PyTorch's own operations take over, and that is said once.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

from backsight.blame import warn
from backsight.recording.statistics._torch import stream_of
from backsight.recording.statistics.measured import FIELDS, WIDTH
from backsight.recording.statistics.native import PLAIN, SURELY_MEMORY
from backsight.recording.statistics.plain import PERIOD, Queued
from backsight.recording.statistics.source import NATIVE
from backsight.runs import BINS

DEVICES = ("cuda",)
"""Types of the devices that Triton's code runs on; PyTorch calls those of ROCm by this name too."""

KINDS = {dtype: code for code, dtype in enumerate(NATIVE)}
"""The types that the kernels read, and what they call them."""

_CHUNK = 4 * PERIOD  # enough of them for every processor of a device, and few enough to merge


def takes(tensor: torch.Tensor) -> bool:
    """Whether the kernels measure contiguous numbers of this type, on this device."""
    return tensor.device.type in DEVICES and tensor.dtype in KINDS and kernel() is not None


def lies_there(tensor: torch.Tensor) -> bool:
    """Whether this is a plain, contiguous tensor on a device of ours, whose numbers are where its address says."""
    try:
        return (
            type(tensor) in PLAIN
            and tensor.dtype in KINDS
            and tensor.device.type in DEVICES
            and tensor.is_contiguous()
            and not tensor.is_neg()
            and tensor.data_ptr() > SURELY_MEMORY
        )
    except RuntimeError:  # sparse, or inside vmap or grad: it has no memory of its own
        return False


def queued(tensors: dict[int, torch.Tensor], histogram: bool) -> Queued | None:
    """Measure contiguous tensors of one device, which the kernels take; None if these could not be launched.

    Nothing is waited for.
    """
    try:
        return Queued([*tensors], _launched([*tensors.values()], histogram))
    except Exception as error:  # a compiler can fail in any way; the training goes on
        give_up(error)
        return None


@cache
def kernel() -> Any:
    """Return the module of the kernels, or None, saying why, once."""
    try:
        from backsight.recording.statistics import triton_kernel
    except Exception as error:  # an installed Triton may be one that cannot be imported
        _say(f"Triton could not be imported ({type(error).__name__})")
        return None
    return None if _FAILED else triton_kernel


_FAILED: list[str] = []


def give_up(error: Exception) -> None:
    """Launch no kernel any more, as one has failed so."""
    reason = f"the Triton kernel failed ({type(error).__name__}: {(str(error).splitlines() or [''])[0]})"
    _FAILED.append(reason)
    kernel.cache_clear()
    _say(reason)


def _say(reason: str) -> None:
    warn(
        f"{reason}: the statistics of tensors on devices are computed with PyTorch operations: same results, slower",
        RuntimeWarning,
    )


def _launched(tensors: list[torch.Tensor], histogram: bool) -> torch.Tensor:
    programs, device = kernel(), tensors[0].device
    listed, of_chunks = _table(tensors, programs.MOST_CHUNKS)
    with current(device):
        numbers = sent(listed + of_chunks, device)
        table, owners = numbers[: len(listed)], numbers[len(listed) :]
        rows, counts = for_chunks(len(owners), device, histogram)
        if len(owners):
            programs.measure_chunks[(len(owners),)](table, owners, rows, counts, HISTOGRAM=histogram)
        return merged(table, rows, counts, histogram)


def for_chunks(count: int, device: torch.device, histogram: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return where the rows of so many chunks are written, and their histograms."""
    rows = torch.empty((count, len(FIELDS) + 1), dtype=torch.float64, device=device)
    return rows, torch.empty((count if histogram else 0, 2 * BINS), dtype=torch.int32, device=device)


def merged(table: torch.Tensor, rows: torch.Tensor, counts: torch.Tensor, histogram: bool) -> torch.Tensor:
    """Return a row for each tensor of the table, from those of its chunks."""
    programs = kernel()
    tensors = len(table) // programs.COLUMNS
    out = torch.zeros((tensors, WIDTH), dtype=torch.float64, device=table.device)
    programs.merge_chunks[(tensors,)](table, rows, counts, out, HISTOGRAM=histogram)
    return out


def _table(tensors: list[torch.Tensor], most: int) -> tuple[array[int], array[int]]:
    """Return a row for each tensor, in the columns of the kernels, and the tensor of each chunk.

    Arrays, as the thread that trains makes them: PyTorch's operations would take ten times as long.
    """
    table, owners = array("q"), array("q")
    for index, tensor in enumerate(tensors):
        count = tensor.numel()
        size = size_of_chunks(count, most)
        table.extend((tensor.data_ptr(), count, KINDS[tensor.dtype], len(owners), size))
        owners.extend(array("q", (index,)) * -(-count // size))
    return table, owners


def size_of_chunks(count: int, most: int) -> int:
    """Return how many numbers a chunk of a tensor has, of which there are to be no more than `most`."""
    return max(-(-count // (most * PERIOD)) * PERIOD, _CHUNK)


def sent(numbers: array[int], device: torch.device) -> torch.Tensor:
    """Return numbers on a device, which are on their way there."""
    held = torch.frombuffer(numbers, dtype=torch.int64)
    if device.type == "cpu":
        return held
    return held.pin_memory().to(device, non_blocking=True)  # pinned memory is used again only when this copy is over


def current(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Launch on this device, which is mostly the current one."""
    elsewhere = device.type == "cuda" and device.index != torch.cuda.current_device()
    return torch.cuda.device(device) if elsewhere else contextlib.nullcontext()


@contextlib.contextmanager
def in_stream(device: torch.device, stream: int) -> Iterator[None]:
    """Launch in this stream of a device, which is mostly the current one."""
    if device.type == "cuda" and stream_of(device) != stream:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device)):  # type: ignore[no-untyped-call]  # without annotations
            yield
    else:
        with current(device):
            yield
