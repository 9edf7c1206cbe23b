"""Fingerprints of tensors by the C kernel: statistics, hash and projection in one pass, in the order of the elements.

What these are is told in `backsight.traces.fingerprints`, which has the same in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from backsight.recording.statistics import native
from backsight.recording.statistics._torch import without_memory
from backsight.recording.statistics.native import PLAIN, SURELY_MEMORY, reaches
from backsight.recording.statistics.source import NATIVE

_KINDS = {dtype: code for code, dtype in enumerate(NATIVE)}


def readable(tensor: torch.Tensor) -> bool:
    """Whether the kernel can read a tensor where it lies, whatever its strides."""
    if native.kernel is None or tensor.dtype not in _KINDS or type(tensor) not in PLAIN:
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
    """Return the fingerprints of tensors that are `readable`, one behind the other; on as many threads as PyTorch's."""
    return native.kernel.imprint(  # type: ignore[no-any-return]  # which may be None
        [each.data_ptr() for each in tensors],
        [each.numel() for each in tensors],
        [_KINDS[each.dtype] for each in tensors],
        [None if each.is_contiguous() else (*each.shape, *each.stride()) for each in tensors],
        torch.get_num_threads(),
    )
