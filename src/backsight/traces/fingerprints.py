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

from backsight.recording.statistics import measure
from backsight.tape import no_torch_dispatch, no_torch_function
from backsight.traces.records import BUCKETS, PRINT

_CHUNK = 1 << 16
"""Elements that are worked on at a time, so that they stay in the cache."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)


class NoValues(Exception):
    """A tensor has no values that could be read: of the meta device, sparse, or of a class of its own."""


def fingerprints(tensors: Sequence[torch.Tensor]) -> tuple[NDArray[np.void], list[torch.Tensor | None]]:
    """Return a row of PRINT for each tensor, and the tensors in plain memory of the CPU, None where there are none.

    To be called within hooks and modes of ours: nothing of the user's sees it.
    """
    rows = np.zeros(len(tensors), PRINT)
    with torch.no_grad(), no_torch_function(), no_torch_dispatch():
        plain = [_plain(tensor) for tensor in tensors]
        there = [place for place, tensor in enumerate(plain) if tensor is not None]
        measured = measure([each for each in plain if each is not None], histogram=False)
        if there:
            rows["stats"][there] = measured.rows
        for place in there:
            tensor = plain[place]
            assert tensor is not None
            rows["hash"][place] = hash_of(tensor)
            rows["sketch"][place] = _sketch(tensor)
    return rows, plain


def as_array(tensor: torch.Tensor) -> NDArray[np.generic]:
    """Return the elements of a tensor that `fingerprints` returned, of a dtype that numpy has."""
    return _numbers(tensor).numpy()


def _plain(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a tensor as contiguous memory of the CPU, without copying where it is that already."""
    if tensor.layout != torch.strided or tensor.device.type == "meta" or tensor.is_quantized:
        return None
    try:
        return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    except (RuntimeError, NotImplementedError):  # fake, functional or of another backend
        return None


def hash_of(tensor: torch.Tensor) -> int:
    """Return the bits of a contiguous tensor as a number."""
    data = tensor.reshape(-1).view(torch.uint8).numpy()
    words = data[: data.size // 8 * 8].view(np.uint64) if data.ctypes.data % 8 == 0 else data[:0].view(np.uint64)
    if words.size * 8 < data.size:
        rest = data[words.size * 8 :]
        tail = np.zeros(-(-rest.size // 8), np.uint64)
        tail.view(np.uint8)[: rest.size] = rest
    else:
        tail = np.zeros(0, np.uint64)
    total = _mixed(words, 0) + _mixed(tail, words.size) + data.size * int(_MIX)
    return total & (1 << 64) - 1


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
def _signs() -> torch.Tensor:
    """Return the signs of a chunk; those of later chunks are the same ones, or all turned round."""
    mixed = _steps().copy()
    mixed ^= mixed >> _HALF
    mixed *= _MIX
    return torch.from_numpy(np.where(mixed >> np.uint64(63), 1.0, -1.0).astype(np.float32))


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return torch.view_as_real(tensor)
    if tensor.dtype in (torch.float32, torch.float64):
        return tensor
    if tensor.dtype.is_floating_point:
        return tensor.to(torch.float32)
    return tensor.to(torch.float64) if tensor.element_size() > 2 else tensor.to(torch.float32)


def _sketch(tensor: torch.Tensor) -> NDArray[np.float64]:
    numbers = tensor.reshape(-1)
    total = np.zeros(BUCKETS)
    for start in range(0, numbers.numel(), _CHUNK):
        chunk = _numbers(numbers[start : start + _CHUNK]).reshape(-1)
        turned = -1.0 if (start // _CHUNK * 0x9E3779B97F4A7C15) >> 40 & 1 else 1.0
        total += turned * _bucketed(chunk)
    return total


def _bucketed(chunk: torch.Tensor) -> NDArray[np.float64]:
    signs = _signs()
    if chunk.numel() > len(signs):  # of complex numbers there are two for each
        return _bucketed(chunk[: len(signs)]) + _bucketed(chunk[len(signs) :])
    signed = chunk * signs[: chunk.numel()]
    short = -signed.numel() % BUCKETS
    if short:
        signed = torch.nn.functional.pad(signed, (0, short))
    summed: NDArray[np.float64] = signed.view(-1, BUCKETS).sum(0, dtype=torch.float64).numpy()
    if not np.isfinite(summed).all():
        return _bucketed(torch.nan_to_num(chunk, 0.0, 0.0, 0.0))
    return summed
