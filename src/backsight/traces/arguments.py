"""What an operator is given, as plain data: tensors apart, all else by the names of its schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import torch

_LONGEST = 64
"""Elements of a list that are kept."""


def taken_apart(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return the arguments as JSON can hold them, and the tensors among them, as {"in": place} there."""
    tensors: list[torch.Tensor] = []
    names = _names(func)
    named = [*zip([*names, *map(str, range(len(names), len(args)))], args, strict=False), *kwargs.items()]
    return {name: _plain(value, tensors) for name, value in named}, tensors


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in what an operator returned, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each)


def written(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return the tensors among the arguments that the operator writes to."""
    found: list[torch.Tensor] = []
    for place, name in _writes(func):
        found += tensors_in(kwargs[name] if name in kwargs else args[place] if place < len(args) else None)
    return found


@cache
def _names(func: Any) -> tuple[str, ...]:
    schema = getattr(func, "_schema", None)
    return tuple(each.name for each in schema.arguments) if schema is not None else ()


@cache
def _writes(func: Any) -> tuple[tuple[int, str], ...]:
    schema = getattr(func, "_schema", None)
    if schema is None:  # a higher-order operator
        return ()
    return tuple(
        (place, each.name)
        for place, each in enumerate(schema.arguments)
        if each.alias_info is not None and each.alias_info.is_write
    )


def _plain(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"in": len(tensors) - 1}
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (list, tuple)):
        held = [_plain(each, tensors) for each in value]
        if len(held) > _LONGEST and not any(isinstance(each, dict) for each in held):
            return [*held[:_LONGEST], "…"]
        return held
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value).removeprefix("torch.")
    if isinstance(value, torch.device):
        return str(value)
    if type(value) is complex:
        return [value.real, value.imag]
    if isinstance(value, torch.Generator):
        return _generator(value)
    return type(value).__name__  # a module, a graph: what is in it would be too much


def _generator(generator: torch.Generator) -> str:
    """Say how a generator was seeded, and whether anything was drawn from it since."""
    seed = generator.initial_seed()
    if generator.device.type != "cpu":  # whose state may be on its device
        return f"seeded with {seed}"
    fresh = torch.equal(torch.Generator().manual_seed(seed).get_state(), generator.get_state())
    return f"freshly seeded with {seed}" if fresh else f"seeded with {seed} and already used"
