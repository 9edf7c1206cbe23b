"""The C kernel's side: tensors on the CPU by address, count and kind.

The kernel is handed plain lists, because the stable ABI of Python 3.10 has no buffers; for a few hundred tensors lists
are as fast. Of tensors that are plain and contiguous a `kernel.Sheet` finds the arrays itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch

from backsight.blame import warn
from backsight.recording.statistics._torch import function_mode, without_memory
from backsight.recording.statistics.measured import Found, Rows
from backsight.recording.statistics.source import NATIVE, fills_its_memory
from backsight.runs import BINS, STATISTICS

kernel: Any
try:
    from backsight.recording.statistics import _kernel as kernel
except ImportError:  # there was no compiler
    kernel = None

_KINDS = {dtype: code for code, dtype in enumerate(NATIVE)}
PLAIN = (torch.nn.Parameter, torch.Tensor)
"""The types whose memory is what they stand for."""

SURELY_MEMORY = 1 << 40
"""Where memory has been released, a view still has an address: its offset, which is below this."""


class Arrays(NamedTuple):
    """The arrays of a list of tensors, and which of these are yet to be `put`: until then they have no elements."""

    addresses: list[int]
    counts: list[int]
    kinds: list[int]
    others: list[int]

    def put(self, index: int, numbers: torch.Tensor) -> None:
        """Set array `index` to these numbers: dense, on the CPU, and kept alive by the caller."""
        self.addresses[index] = numbers.data_ptr()
        self.counts[index] = numbers.numel()
        self.kinds[index] = _KINDS[numbers.dtype]


if kernel is not None:
    EXCHANGE = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)  # from PyTorch 2.10 on
    kernel.connect(PLAIN, NATIVE, torch.get_num_threads, function_mode, EXCHANGE)


@cache
def available() -> bool:
    """Whether the kernel is built; where it is not, says so, once."""
    if kernel is None:
        warn(
            "backsight was installed without its C kernel (no compiler?): statistics are computed with PyTorch "
            "operations: same results, several times slower",
            RuntimeWarning,
        )
    return kernel is not None


def arrays(tensors: list[torch.Tensor]) -> Arrays:
    """Return the arrays of the tensors that are plain, dense, on the CPU and of a native type; all else is others.

    The loop is what recording costs beside the reading itself: each question that it asks takes 40 ns.
    """
    addresses, counts, kinds = [0] * len(tensors), [0] * len(tensors), [0] * len(tensors)
    others = []
    plain, kind_of = PLAIN, _KINDS.get
    for index, tensor in enumerate(tensors):
        kind = kind_of(tensor.dtype)
        if kind is not None and type(tensor) in plain:
            try:
                if tensor.is_cpu and not tensor.is_neg() and (tensor.is_contiguous() or fills_its_memory(tensor)):
                    address = tensor.data_ptr()
                    if address > SURELY_MEMORY or (address and reaches(tensor)):
                        addresses[index], counts[index], kinds[index] = address, tensor.numel(), kind
                        continue
            except RuntimeError:  # sparse, or inside vmap or grad: it has no memory of its own
                pass
        others.append(index)
    return Arrays(addresses, counts, kinds, others)


def sheet(histogram: bool) -> Any:
    """Return a new `kernel.Sheet`, yet to `begin`, which adds a row to a list for each tensor it measures.

    None without a kernel. It counts on slots as those of `page.py`.
    """
    return kernel.Sheet([], histogram) if available() else None


def run(arrays: Arrays, histogram: bool) -> Found:
    """Return rows, histograms, their negative part and sampled counts; on as many threads as PyTorch would use."""
    rows, *counts, sampled = kernel.measure(
        arrays.addresses, arrays.counts, arrays.kinds, histogram, torch.get_num_threads()
    )
    found: Rows = np.frombuffer(rows, STATISTICS)
    if not histogram:
        return Found(found)
    all_of_them, negatives = (np.frombuffer(each, np.uint32).reshape(-1, BINS) for each in counts)
    return Found(found, all_of_them, negatives, np.frombuffer(sampled, np.int64))


def reaches(tensor: torch.Tensor) -> bool:
    """Whether the storage still holds this view."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    end = (tensor.storage_offset() + last + 1) * tensor.element_size()
    return tensor.untyped_storage().nbytes() >= end


def readable(tensor: torch.Tensor) -> bool:
    """Whether the kernel can take the fingerprint of a tensor where it lies, whatever its strides."""
    if kernel is None or tensor.dtype not in _KINDS or type(tensor) not in PLAIN:
        return False
    try:
        if not tensor.is_cpu or tensor.layout is not torch.strided or tensor.is_neg() or without_memory(tensor):
            return False
        address = tensor.data_ptr()
        there = address > SURELY_MEMORY or (address and reaches(tensor)) or not tensor.numel()
        return bool(there) and address % tensor.element_size() == 0
    except RuntimeError:  # inside vmap or grad: it has no memory of its own
        return False


def imprints(tensors: Sequence[torch.Tensor]) -> bytearray:
    """Return the fingerprints of tensors that are `readable`, one behind the other; on as many threads as PyTorch's.

    Each is statistics, hash and projection, from one pass in the order of the elements. What these are is told in
    `backsight.traces.fingerprints`, which has the same in NumPy.
    """
    return kernel.imprint(  # type: ignore[no-any-return]
        [each.data_ptr() for each in tensors],
        [each.numel() for each in tensors],
        [_KINDS[each.dtype] for each in tensors],
        [None if each.is_contiguous() else (*each.shape, *each.stride()) for each in tensors],
        torch.get_num_threads(),
    )
