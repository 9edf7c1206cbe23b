"""Any tensor as a stretch of numbers: dense, in the order of memory, of a kind that can be measured.

Statistics do not depend on the order of elements, so a transposed or channels-last tensor is read as it lies. A view
with gaps is copied. Three kinds stand for more numbers than they hold or hold more than one a place:

- an expanded tensor is read once, and counted as often as it is repeated;
- a sparse tensor is read by its values, and the zeros between them are counted;
- a complex tensor is read as its real view: real and imaginary parts are elements of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from backsight.naming.roots import ours
from backsight.recording.statistics._torch import MKLDNN, answers_itself, local, without_memory

NATIVE = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
)
"""The types that are measured as they are; their places are their codes in the C kernel."""

_WIDER = {
    getattr(torch, name): wider
    for name, wider in {
        "uint16": torch.int32,
        "uint32": torch.int64,
        "uint64": torch.float64,
        "float8_e4m3fn": torch.float32,
        "float8_e4m3fnuz": torch.float32,
        "float8_e5m2": torch.float32,
        "float8_e5m2fnuz": torch.float32,
        "float8_e8m0fnu": torch.float32,
    }.items()
    if hasattr(torch, name)
}
_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


class Source(NamedTuple):
    """Numbers to read, contiguous; how often each counts; zeros that are not among them."""

    numbers: torch.Tensor
    copies: int = 1
    zeros: int = 0


class Unreadable(Exception):
    """This tensor has no statistics; the message says why, to follow the name of the tensor."""


def source(tensor: torch.Tensor) -> Source:
    """Return what to read of a tensor. To be called without gradients and overrides.

    Raises:
        Unreadable: if there is nothing to read, or nobody knows how.
    """
    try:
        return _dense(_plain(tensor))
    except Unreadable:
        raise
    except Exception as error:  # whatever else a tensor may be: the training goes on, and the reason is kept
        ours(error)
        lines = str(error).splitlines() or [""]
        raise Unreadable(f"could not be read ({type(error).__name__}: {lines[0]})") from error


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that holds the memory: a DTensor's local shard, a parameter's data."""
    if torch.nn.parameter.is_lazy(tensor):
        raise Unreadable("is not initialized yet")
    tensor = local(tensor)
    if tensor.is_meta:
        raise Unreadable("is on the meta device and has no values")
    if tensor.is_quantized:
        raise Unreadable("is quantized")
    if answers_itself(tensor):
        raise Unreadable(f"is a {type(tensor).__name__}, which stores its values in its own way")
    held = tensor.detach()
    return held if type(held) is torch.Tensor else held.as_subclass(torch.Tensor)


def _dense(tensor: torch.Tensor) -> Source:
    if tensor.layout is not torch.strided:
        return _stored(tensor)
    if without_memory(tensor):
        tensor = tensor.clone()
    elif not _has_memory(tensor):
        raise Unreadable("has had its memory released")
    if tensor.is_complex():
        return _dense(torch.view_as_real(tensor.resolve_conj()))
    tensor = tensor.resolve_neg()
    if tensor.dtype in _WIDER:
        tensor = tensor.to(_WIDER[tensor.dtype])
    elif tensor.dtype not in NATIVE:
        raise Unreadable(f"is of {tensor.dtype}, which is not measured")
    copies = 1
    for dimension in reversed(range(tensor.dim())):
        if tensor.stride(dimension) == 0 and tensor.size(dimension) > 1:
            copies *= tensor.size(dimension)
            tensor = tensor.select(dimension, 0)
    if not fills_its_memory(tensor):
        tensor = tensor.contiguous()
    return Source(tensor.as_strided((tensor.numel(),), (1,)), copies)


def _stored(tensor: torch.Tensor) -> Source:
    """The values of a layout that does not store every element."""
    if tensor.layout is torch.sparse_coo:
        values = tensor.coalesce().values()
    elif tensor.layout in _COMPRESSED:
        values = tensor.values()
    elif tensor.layout is MKLDNN:
        return _dense(tensor.to_dense())
    else:
        raise Unreadable(f"has the layout {tensor.layout}, which is not measured")
    stored = _dense(values)
    elements = 2 if tensor.is_complex() else 1
    return stored._replace(zeros=tensor.numel() * elements - stored.numbers.numel() * stored.copies)


def _has_memory(tensor: torch.Tensor) -> bool:
    """False where the storage was shrunk under the tensor, as FSDP does with a parameter that it has resharded."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    end = (tensor.storage_offset() + reach + 1) * tensor.element_size()
    return tensor.numel() == 0 or tensor.untyped_storage().nbytes() >= end


def fills_its_memory(tensor: torch.Tensor) -> bool:
    """Whether the elements, in some order, are one stretch of memory, each there once."""
    expected = 1
    for stride, size in sorted((s, n) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n != 1):
        if stride != expected:
            return tensor.numel() == 0
        expected *= size
    return True
