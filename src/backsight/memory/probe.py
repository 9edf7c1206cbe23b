"""What an operator allocates inside of itself, found by running it on tensors of zeros under the profiler."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._pytree import tree_map_only

from backsight.memory._torch import RNN, RNN_BACKWARD, memory_reports, without_log_warnings, without_modes
from backsight.memory.tensors import in_order, parts_of, storage_of, tensors_of
from backsight.quiet import quietly
from backsight.tape import storage_key


@dataclass(frozen=True)
class Result:
    """A tensor that an operator returned in memory of its own: `bytes` of storage, which can be more than it needs.

    A sparse one has its indices and values in `parts`, and no bytes besides.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...] = ()
    bytes: int = 0
    parts: tuple[Result, ...] = ()
    coalesced: bool = False


@dataclass(frozen=True)
class Probe:
    """What an operator took of the allocator: `scratch` is the most bytes at one time, besides its results.

    `results` are as it returned them, None for a tensor in memory that was there before; none if they are not known.
    """

    scratch: int
    results: tuple[Result | None, ...]
    bound: int = 0
    """Bytes of scratch that are possible besides, where the operator could not be tried."""

    @classmethod
    def of(cls, func: Any, args: Any, kwargs: Any) -> Probe:
        """Run an operator for real, on zeros in the form of these tensors, which can be fake ones.

        Lets pass what the operator raises.
        """
        with without_modes(), quietly(), without_log_warnings():
            args, kwargs = tree_map_only(torch.Tensor, _zeros, (args, kwargs))
            if func is RNN_BACKWARD:
                args = _with_workspace(args)
            with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
                returned = func(*args, **kwargs)
            given = frozenset().union(*(_memory(each) for each in tensors_of((args, kwargs))))
            results = tuple(None if _memory(each) <= given else _result(each) for each in in_order((returned,)))
        return cls(_scratch(memory_reports(profiled)), results)


def extrapolated(small: Probe, large: Probe, at: tuple[int, int, int]) -> Probe:
    """Return the probe of a size, by a line through those of two smaller ones; `at` are the three sizes, in order.

    Scratch, storages, sizes and strides are each linear in the length of a batch or a sequence, or do not depend on it.
    """

    def along(low: int, high: int) -> int:
        return high + (high - low) * (at[2] - at[1]) // (at[1] - at[0])

    def result(low: Result | None, high: Result | None) -> Result | None:
        if low is None or high is None or high.parts:
            return None
        size, stride = (tuple(map(along, *pair)) for pair in ((low.size, high.size), (low.stride, high.stride)))
        return Result(size, stride, along(low.bytes, high.bytes))

    return Probe(max(0, along(small.scratch, large.scratch)), tuple(map(result, small.results, large.results)))


def as_tried(returned: Any, results: Iterator[Result | None]) -> Any:
    """Return what an operator returned, with its tensors in the form of those that it returned when it was tried."""
    if isinstance(returned, (tuple, list)):
        return type(returned)(as_tried(each, results) for each in returned)
    result = next(results) if isinstance(returned, torch.Tensor) else None
    if result is None or result == _result(returned):
        return returned
    if result.parts:
        indices, values = (_filled(*each) for each in zip(result.parts, (torch.int64, returned.dtype), strict=True))
        return torch.sparse_coo_tensor(
            indices, values, result.size, check_invariants=False, is_coalesced=result.coalesced
        )
    return _filled(result, returned.dtype)


def _filled(result: Result, dtype: torch.dtype) -> torch.Tensor:
    flat = torch.empty(-(-result.bytes // dtype.itemsize), dtype=dtype, device="cpu")
    return flat.as_strided(result.size, result.stride)


def _with_workspace(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of the backward of a recurrent layer, with a workspace that its forward has filled."""
    tensors, (reverse, mode, hidden, layers, biases, train, both_ways, sizes, batch_first, _) = args[:7], args[13:]
    with torch.enable_grad():  # or it would be that of an inference
        workspace = RNN(*tensors, reverse, sizes, mode, hidden, layers, biases, both_ways, batch_first, train)[3]
    return (*args[:-1], workspace)


def _zeros(tensor: torch.Tensor) -> torch.Tensor:
    """Return a real tensor in the same form, also where its elements share memory; the rows of a sparse one differ."""
    if tensor.layout == torch.sparse_coo:
        return _sparse_zeros(tensor)
    reach = 1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
    flat = torch.zeros(reach if tensor.numel() else 0, dtype=tensor.dtype)
    return flat.as_strided(tensor.size(), tensor.stride())


def _sparse_zeros(tensor: torch.Tensor) -> torch.Tensor:
    values = _zeros(tensor._values())
    sizes = tensor.size()[: tensor.sparse_dim()]
    places = torch.arange(len(values)) % max(1, math.prod(sizes))
    indices = torch.stack(torch.unravel_index(places, sizes))
    return torch.sparse_coo_tensor(
        indices, values, tensor.size(), check_invariants=False, is_coalesced=tensor.is_coalesced()
    )


def _memory(tensor: torch.Tensor) -> frozenset[int]:
    """Return what tells the memory of a tensor: its storage, or those of its parts."""
    return frozenset(storage_key(storage) for each in parts_of(tensor) if (storage := storage_of(each)) is not None)


def _result(tensor: torch.Tensor) -> Result:
    if tensor.layout == torch.sparse_coo:
        parts = tuple(map(_result, parts_of(tensor)))
        return Result(tuple(tensor.size()), parts=parts, coalesced=tensor.is_coalesced())
    return Result(tuple(tensor.size()), tuple(tensor.stride()), tensor.untyped_storage().nbytes())


def _scratch(reports: Iterable[int]) -> int:
    """Return the most bytes at one time beyond those that are left at the end."""
    now = most = 0
    for size in reports:
        now += size
        most = max(most, now)
    return most - max(0, now)
