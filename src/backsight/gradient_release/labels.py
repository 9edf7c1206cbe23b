"""Which parameters have flowed into each byte of memory."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"
"""A set of parameters for each element of a tensor: bit n stands for parameter n."""

BITS = 62
"""Of more parameters than this, several share a bit: what couples those alone is not told."""


class Labels:
    """A mask for every byte of every storage that was met; what was never written has none of the parameters.

    Bytes, because a view of another type or shape sees the labels of the memory that it shares. Storages are kept
    alive, so that none is mistaken for a later one at the same address.
    """

    def __init__(self) -> None:
        self._memory: dict[int, tuple[torch.UntypedStorage, Mask]] = {}
        self._others: dict[int, tuple[torch.Tensor, Mask]] = {}

    def of(self, tensor: torch.Tensor) -> Mask:
        """Return the parameters in each element of a tensor."""
        if tensor.layout is not torch.strided:
            held = self._others.get(id(tensor))
            return _none() if held is None else held[1]
        mask: Mask = np.bitwise_or.reduce(self._bytes(tensor), axis=-1)
        return mask

    def union(self, tensor: torch.Tensor) -> int:
        """Return the parameters in a tensor."""
        return union(self.of(tensor))

    def put(self, tensor: torch.Tensor, mask: Mask) -> None:
        """Say which parameters each element of a tensor comes from; a mask of another shape counts for all of it."""
        if tensor.layout is not torch.strided:
            self._others[id(tensor)] = tensor, np.asarray(union(mask), np.uint64)
            return
        fits = mask.ndim <= tensor.dim() and all(
            one in (1, other) for one, other in zip(mask.shape[::-1], tuple(tensor.shape)[::-1], strict=False)
        )
        self._bytes(tensor)[...] = mask[..., None] if fits else np.uint64(union(mask))

    def _bytes(self, tensor: torch.Tensor) -> Mask:
        """Return the masks of a tensor's bytes, as a view: the shape of the tensor, and the bytes of an element."""
        size = tensor.element_size()
        storage = tensor.untyped_storage()
        if not storage.nbytes():
            return np.zeros((*tensor.shape, size), np.uint64)
        key = storage.data_ptr()
        held = self._memory.get(key)
        if held is None or held[1].size < storage.nbytes():
            grown = np.zeros(storage.nbytes(), np.uint64)
            if held is not None:  # resized in place
                grown[: held[1].size] = held[1]
            held = self._memory[key] = storage, grown
        start = held[1][tensor.storage_offset() * size :]
        strides = (*(8 * size * stride for stride in tensor.stride()), 8)
        return np.lib.stride_tricks.as_strided(start, (*tensor.shape, size), strides)


def union(mask: Mask) -> int:
    """Return the parameters of all elements."""
    return int(np.bitwise_or.reduce(mask, axis=None)) if mask.size else 0


def together(masks: list[Mask], shape: tuple[int, ...]) -> Mask:
    """Return the masks of a pointwise operation: each element comes from those in its place."""
    if not masks:
        return _none()
    try:
        if np.broadcast_shapes(*(each.shape for each in masks)) == shape:
            made: Mask = np.bitwise_or.reduce([np.broadcast_to(each, shape) for each in masks], axis=0)
            return made
    except ValueError:
        pass
    return mixed(masks)


def mixed(masks: list[Mask]) -> Mask:
    """Return the mask of an operation in which everything may come from everything."""
    whole = 0
    for each in masks:
        whole |= union(each)
    return np.asarray(whole, np.uint64)


def bit(number: int) -> int:
    """Return the mask of one parameter."""
    return 1 << (number % BITS)


def _none() -> Mask:
    return np.asarray(0, np.uint64)
