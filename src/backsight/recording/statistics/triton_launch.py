"""Where the Triton kernel measures, and how it is told what: a table of tensors, copied over without waiting.

Where Triton is missing, or will not compile the kernel, PyTorch's own operations take over, and that is said once.
"""

from __future__ import annotations

import contextlib
from array import array
from functools import cache
from typing import Any

import torch

from backsight.blame import warn
from backsight.recording.statistics.measured import FIELDS, WIDTH
from backsight.recording.statistics.plain import PERIOD, Queued
from backsight.recording.statistics.source import NATIVE
from backsight.runs import BINS

DEVICES = ("cuda",)
"""Types of the devices that Triton's code runs on; PyTorch calls those of ROCm by this name too."""

_KINDS = {dtype: code for code, dtype in enumerate(NATIVE[:4])}
_CHUNK = 4 * PERIOD  # enough of them for every processor of a device, and few enough to merge


def takes(tensor: torch.Tensor) -> bool:
    """Whether the kernel measures a dense stretch of numbers of this type, on this device."""
    return tensor.device.type in DEVICES and tensor.dtype in _KINDS and kernel() is not None


def queued(tensors: dict[int, torch.Tensor], histogram: bool) -> Queued | None:
    """Launch the kernel over dense tensors of one device that it `takes`; None if it could not be launched.

    Nothing is waited for. The numbers of each tensor are one row.
    """
    try:
        return Queued(dict.fromkeys(tensors, 1), _launched(list(tensors.values()), histogram))
    except Exception as error:  # a compiler can fail in any way; the training goes on
        _give_up(f"the Triton kernel failed ({type(error).__name__}: {(str(error).splitlines() or [''])[0]})")
        return None


@cache
def kernel() -> Any:
    """Return the module of the kernel, or None, saying why, once."""
    try:
        from backsight.recording.statistics import triton_kernel
    except Exception as error:  # an installed Triton may be one that cannot be imported
        _say(f"Triton could not be imported ({type(error).__name__})")
        return None
    return None if _FAILED else triton_kernel


_FAILED: list[str] = []


def _give_up(reason: str) -> None:
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
    numbers = torch.frombuffer(listed + of_chunks, dtype=torch.int64)
    if device.type != "cpu":  # pinned memory is used again only when this copy is over
        numbers = numbers.pin_memory().to(device, non_blocking=True)
    table, owners = numbers[: len(listed)], numbers[len(listed) :]
    rows = torch.empty((len(owners), len(FIELDS) + 1), dtype=torch.float64, device=device)
    counts = torch.empty((len(owners) if histogram else 0, 2 * BINS), dtype=torch.int32, device=device)
    out = torch.zeros((len(tensors), WIDTH), dtype=torch.float64, device=device)
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        if len(owners):
            programs.measure_chunks[(len(owners),)](table, owners, rows, counts, HISTOGRAM=histogram)
        programs.merge_chunks[(len(tensors),)](table, rows, counts, out, HISTOGRAM=histogram)
    return out


def _table(tensors: list[torch.Tensor], most: int) -> tuple[array[int], array[int]]:
    """Return a row for each tensor, in the columns of the kernel, and the tensor of each chunk.

    Arrays, as the thread that trains makes them for every call of a module: PyTorch's operations would take ten times
    as long.
    """
    table, owners = array("q"), array("q")
    for index, tensor in enumerate(tensors):
        count = tensor.numel()
        size = max(-(-count // (most * PERIOD)) * PERIOD, _CHUNK)
        table.extend((tensor.data_ptr(), count, _KINDS[tensor.dtype], len(owners), size))
        owners.extend(array("q", (index,)) * -(-count // size))
    return table, owners
