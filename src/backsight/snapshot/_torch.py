"""What snapshots need of PyTorch beyond its documented surface, each with the reason."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch


def no_torch_function() -> AbstractContextManager[None]:
    """Keep `__torch_function__` of tensor subclasses and modes from running while we look at tensors."""
    return torch._C.DisableTorchFunction()


def registered(module: torch.nn.Module, registry: str) -> list[object]:
    """Return what a module has in its `_parameters` or `_modules`, past whatever its class overrides.

    A module whose `__init__` never called that of `nn.Module` has no registries.
    """
    held = object.__getattribute__(module, "__dict__").get(registry)
    return [value for value in dict.values(held) if value is not None] if issubclass(type(held), dict) else []


def groups(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Return the parameter groups of an optimizer; none of one that is still being made.

    In wrappers such as Accelerate's they are a property, which is the user's code: there the wrapped one is looked up.
    """
    seen: set[int] = set()
    while id(optimizer) not in seen:
        seen.add(id(optimizer))
        held = object.__getattribute__(optimizer, "__dict__")
        if type(own := held.get("param_groups")) is list:
            return own
        inner = (each for each in held.values() if issubclass(type(each), torch.optim.Optimizer))
        optimizer = next(inner, optimizer)
    return []
