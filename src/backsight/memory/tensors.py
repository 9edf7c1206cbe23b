"""The tensors that are there, and the storages under them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from backsight.memory._torch import COMPILED, FAMILIAR, FakeTensor
from backsight.tape import alive, modules_in, registered


def tensors_of(value: Any, seen: set[int] | None = None) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested lists, tuples, sets and dicts, each of which is looked into once.

    seen: the `id` of those that were looked into before; it grows.
    """
    seen = set() if seen is None else seen
    stack = [value]
    while stack:
        each = stack.pop()
        if issubclass(type(each), torch.Tensor):
            yield each
        elif isinstance(each, (dict, list, tuple, set, frozenset)) and id(each) not in seen:
            seen.add(id(each))
            stack += each.values() if isinstance(each, dict) else each


def in_order(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among values and in lists of them, in order, as operators take and return them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from in_order(value)


def parts_of(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the tensors that hold the memory: those inside of a sparse one or a wrapping one, such as a DTensor."""
    if tensor.layout == torch.sparse_coo:
        yield from (tensor._indices(), tensor._values())
        return
    if type(tensor) in FAMILIAR or not hasattr(type(tensor), "__tensor_flatten__"):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:  # type: ignore[attr-defined]  # asked for in the line above
        if issubclass(type(part := getattr(tensor, name)), torch.Tensor):  # a DTensor names its mesh too
            yield from parts_of(part)


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """Return the storage of a tensor; None if it has none, as a sparse one."""
    try:
        return tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):  # sparse, opaque and functorch tensors
        return None


def address_of(tensor: torch.Tensor) -> int:
    """Return where the storage of a tensor begins; 0 if it has no memory."""
    storage = storage_of(tensor)
    try:
        return 0 if storage is None else storage.data_ptr()
    except RuntimeError:  # fake and functional tensors
        return 0


def all_tensors() -> list[torch.Tensor]:
    """Return every tensor that Python knows of, but for fake ones."""
    return [each for each in alive(torch.Tensor) if not issubclass(type(each), FakeTensor)]


def paths_in(model: torch.nn.Module, prefix: str = "") -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield the modules in a model with their paths, without the part that `torch.compile` adds."""
    for path, module in modules_in(model, prefix):
        yield ".".join(part for part in path.split(".") if part != COMPILED), module


def named_tensors(model: torch.nn.Module, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the parameters and buffers of a model with their paths."""
    for path, module in paths_in(model, prefix):
        for table in ("_parameters", "_buffers"):
            for name, tensor in registered(module, table).items():
                if isinstance(tensor, torch.Tensor):
                    yield (f"{path}.{name}" if path else name), tensor
