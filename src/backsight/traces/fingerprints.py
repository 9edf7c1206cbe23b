"""Fingerprints of tensors: the bits as a number, statistics, and a random projection, whatever the strides.

The hash adds up one mixed 64-bit word for each eight bytes, so that it is the same in any order of work. The projection
is a count sketch: element i goes with a fixed random sign into bucket i mod 16, so that the squared distance of two
projections is, on average, that of the tensors (Charikar, Chen, Farach-Colton: Finding frequent items in data streams,
2002). Two traces tell so how far apart two tensors are though neither has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from backsight.recording.statistics import imprints, measure, readable
from backsight.tape import is_captured
from backsight.traces.records import BUCKETS, PRINT

_CHUNK = 1 << 16
"""Elements that are worked on at a time, so that they stay in the cache."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)


def fingerprints(tensors: Sequence[torch.Tensor]) -> tuple[NDArray[np.void], list[torch.Tensor | None]]:
    """Return a row of PRINT for each tensor, and the tensors in plain memory of the CPU, None where there are none.

    To be called within hooks and modes of ours: nothing of the user's sees it. The C kernel does it in one pass; where
    there is none, and for dtypes that it does not know, NumPy finds the same hash and projection, bit for bit.
    """
    plain = [tensor.detach() if readable(tensor) else _plain(tensor) for tensor in tensors]
    there = {place: _real(tensor) for place, tensor in enumerate(plain) if tensor is not None}
    at_once = [place for place, tensor in there.items() if readable(tensor)]
    rows = np.zeros(len(tensors), PRINT)
    if at_once:
        found = np.frombuffer(imprints([there[place] for place in at_once]), PRINT)
        if len(at_once) == len(tensors):
            return found, plain
        rows[at_once] = found
    for place in there.keys() - at_once:
        rows[place] = print_of(there[place])
    return rows, plain


def fingerprint(tensor: torch.Tensor) -> tuple[bytes, torch.Tensor | None]:
    """Return the row of PRINT of one tensor as bytes, and the tensor in plain memory, None where there is none."""
    if readable(tensor):
        return bytes(imprints([tensor])), tensor.detach()
    rows, plain = fingerprints([tensor])
    return rows[0].tobytes(), plain[0]


def print_of(tensor: torch.Tensor) -> NDArray[np.void]:
    """Return the fingerprint of a contiguous tensor by NumPy, and its statistics by whatever measures them."""
    row = np.zeros((), PRINT)
    tensor = tensor.clone()  # what numpy has looked at can never be resized again, as FSDP does with its parameters
    row["stats"] = measure([tensor], histogram=False).rows[0]
    row["hash"], row["sketch"] = hash_of(tensor), sketch_of(tensor)
    return row


def as_array(tensor: torch.Tensor) -> NDArray[np.generic]:
    """Return a copy of the elements of a tensor that `fingerprints` returned, of a dtype that numpy has."""
    return _numbers(tensor).clone(memory_format=torch.contiguous_format).numpy()


_LARGEST_SPARSE = 1 << 22
"""Elements that a sparse tensor may have as a dense one, to be compared as that."""


def is_small_and_sparse(tensor: torch.Tensor) -> bool:
    """Whether a tensor is sparse, as the gradient of an embedding, and can be made dense in passing."""
    sparse = type(tensor) is torch.Tensor and tensor.layout == torch.sparse_coo and tensor.device.type != "meta"
    return sparse and tensor.numel() <= _LARGEST_SPARSE and (tensor.is_cpu or not is_captured())


def _plain(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a tensor as contiguous memory of the CPU, without copying where it is that already."""
    if is_small_and_sparse(tensor):
        tensor = tensor.detach().to_dense()
    if tensor.layout != torch.strided or tensor.device.type == "meta" or tensor.is_quantized:
        return None
    if not tensor.is_cpu and is_captured():
        return None
    try:
        if tensor.numel() and not tensor.untyped_storage().nbytes():  # as FSDP leaves a parameter that it has resharded
            return None
        return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    except (RuntimeError, NotImplementedError):  # fake, functional or of another backend
        return None


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with the parts of complex numbers as numbers of their own: the same bits."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def hash_of(tensor: torch.Tensor) -> int:
    """Return the bits of a contiguous tensor as a number."""
    data = _flat(tensor).view(torch.uint8).numpy()
    words = data[: data.size // 8 * 8].view(np.uint64) if data.ctypes.data % 8 == 0 else data[:0].view(np.uint64)
    if words.size * 8 < data.size:
        rest = data[words.size * 8 :]
        tail = np.zeros(-(-rest.size // 8), np.uint64)
        tail.view(np.uint8)[: rest.size] = rest
    else:
        tail = np.zeros(0, np.uint64)
    total = _mixed(words, 0) + _mixed(tail, words.size) + data.size * int(_MIX)
    return total & (1 << 64) - 1


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor as one row; of one or no element, its strides may be any."""
    return tensor.as_strided((tensor.numel(),), (1,))


def _mixed(words: NDArray[np.uint64], first: int) -> int:
    total = 0
    for start in range(0, words.size, _CHUNK):
        chunk = words[start : start + _CHUNK]
        offset = np.uint64((first + start) * int(_GOLDEN) & (1 << 64) - 1)
        mixed = chunk + _steps()[: chunk.size]
        mixed += offset
        mixed ^= mixed >> _HALF
        mixed *= _MIX
        mixed ^= mixed >> _HALF
        total += int(np.add.reduce(mixed))
    return total


@cache
def _steps() -> NDArray[np.uint64]:
    steps: NDArray[np.uint64] = np.arange(1, _CHUNK + 1, dtype=np.uint64) * _GOLDEN
    return steps


@cache
def _signs() -> NDArray[np.float64]:
    """Return the signs of a chunk; those of later chunks are the same ones, or all turned round."""
    mixed = _steps().copy()
    mixed ^= mixed >> _HALF
    mixed *= _MIX
    return np.where(mixed >> np.uint64(63), 1.0, -1.0)


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return torch.view_as_real(tensor)
    if tensor.dtype in (torch.float32, torch.float64):
        return tensor
    if tensor.dtype.is_floating_point:
        return tensor.to(torch.float32)
    return tensor.to(torch.float64) if tensor.element_size() > 2 else tensor.to(torch.float32)


def sketch_of(tensor: torch.Tensor) -> NDArray[np.float64]:
    """Return the projection of a contiguous tensor; numpy works through it in one thread, beside which others train."""
    numbers = _flat(_numbers(tensor)).numpy()
    total = np.zeros(BUCKETS)
    with np.errstate(all="ignore"):
        for number, start in enumerate(range(0, numbers.size, _CHUNK)):
            turned = -1.0 if (number * 0x9E3779B97F4A7C15) >> 40 & 1 else 1.0
            total += turned * _bucketed(numbers[start : start + _CHUNK])
    return total


def _bucketed(chunk: NDArray[np.generic]) -> NDArray[np.float64]:
    signed = np.multiply(chunk, _signs()[: chunk.size], dtype=np.float64)
    even = signed.size // BUCKETS * BUCKETS
    summed: NDArray[np.float64] = np.add.reduce(signed[:even].reshape(-1, BUCKETS), axis=0)
    summed[: signed.size - even] += signed[even:]
    if not np.isfinite(summed).all():
        finite = np.nan_to_num(chunk, nan=0.0, posinf=0.0, neginf=0.0)
        return summed if finite is chunk or np.array_equal(finite, chunk) else _bucketed(finite)
    return summed
