"""The tensors inside of what modules take and return, each by the path a person would write to it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from backsight.recording._torch import COMPILED, registered

DEPTH = 8
"""Containers inside of containers that are looked into."""

MOST = 256
"""Tensors taken out of one value."""


def tensors_in(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield path and tensor for each tensor in tuples, lists, dicts and dataclasses, however nested.

    tensors_in({"a": x, "b": [y, 3]}, "batch")      # ("batch.a", x), ("batch.b[0]", y)
    """
    stack: list[tuple[str, Any, int]] = [(path, value, 0)]
    found = 0
    while stack and found < MOST:
        path, value, depth = stack.pop()
        if issubclass(type(value), torch.Tensor):
            found += 1
            yield path, value
        elif depth < DEPTH:
            stack.extend((path + step, inner, depth + 1) for step, inner in reversed(_parts(value)))


def _parts(value: Any) -> list[tuple[str, Any]]:
    """Return what a container holds, each with the step to it; nothing of the user's is evaluated to find out."""
    kind = type(value)
    if issubclass(kind, tuple):
        fields = getattr(kind, "_fields", None)
        steps = [f".{name}" for name in fields] if fields else [f"[{n}]" for n in range(tuple.__len__(value))]
        return list(zip(steps, tuple.__iter__(value), strict=False))
    if issubclass(kind, list):
        return [(f"[{n}]", inner) for n, inner in enumerate(list.__iter__(value))]
    if issubclass(kind, dict):
        return [(_step(key, n), inner) for n, (key, inner) in enumerate(dict.items(value))]
    if dataclasses.is_dataclass(kind):
        return _fields(value)
    if issubclass(kind, Mapping) and issubclass(type(held := _own(value).get("data")), dict):
        return _parts(held)  # UserDict and those made after it, as tokenizers return
    return []


def _step(key: Any, place: int) -> str:
    if type(key) is str:
        return f".{key}" if key.isidentifier() else f"[{key!r}]"
    return f"[{key}]" if type(key) in (int, bool) else f"[key {place}]"


def _fields(value: Any) -> list[tuple[str, Any]]:
    held = []
    for field in dataclasses.fields(value):
        try:
            held.append((f".{field.name}", object.__getattribute__(value, field.name)))
        except AttributeError:  # a field that has not been set
            continue
    return held


def _own(value: Any) -> dict[str, Any]:
    try:
        own: dict[str, Any] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return own


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The names of a module's arguments: those by position, and the one that takes the rest, if any."""

    names: tuple[str, ...]
    rest: str | None

    def name(self, position: int) -> str:
        """Return what the module's `forward` calls its argument at this position."""
        if position < len(self.names):
            return self.names[position]
        return f"{self.rest or 'args'}[{position - len(self.names)}]"


def arguments_of(module: torch.nn.Module) -> Arguments:
    """Return the names of the arguments of the module's `forward`."""
    module = registered(module, "_modules").get(COMPILED, module)
    forward = _own(module).get("forward")  # one that was put on the module itself, bound as it is
    bound = forward is not None
    called: Any = forward if bound else type(module).forward
    try:
        parameters = list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):  # a forward that is not written in Python
        return Arguments((), None)
    kinds = inspect.Parameter
    by_position = [p.name for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is kinds.VAR_POSITIONAL), None)
    return Arguments(tuple(by_position if bound else by_position[1:]), rest)
