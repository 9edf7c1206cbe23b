"""What snapshots need of PyTorch beyond its documented surface, each with the reason."""

from __future__ import annotations

from typing import Any

import torch

from backsight.surface import there

_hooks: bool = there("torch.optim.Optimizer._optimizer_step_post_hooks", "recorded steps")


def groups(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Return the parameter groups of an optimizer; none of one that is still being made.

    In wrappers such as Accelerate's they are a property, which is the user's code: there the wrapped one is looked up.
    """
    held = object.__getattribute__(optimizer, "__dict__")
    if type(own := held.get("param_groups")) is list:
        return own  # asked for several times a step
    seen: set[int] = set()
    while id(optimizer) not in seen:
        seen.add(id(optimizer))
        held = object.__getattribute__(optimizer, "__dict__")
        if type(own := held.get("param_groups")) is list:
            return own
        inner = (each for each in held.values() if issubclass(type(each), torch.optim.Optimizer))
        optimizer = next(inner, optimizer)
    return []


def stepping(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return the optimizer whose steps PyTorch's hooks see: of a wrapper, such as Accelerate's, the one inside.

    A wrapper that was not made by `Optimizer.__init__` has no hooks, and its step none around it.
    """
    seen: set[int] = set()
    while _hooks and id(optimizer) not in seen:
        seen.add(id(optimizer))
        held = object.__getattribute__(optimizer, "__dict__")
        if "_optimizer_step_post_hooks" not in held:
            inner = (each for each in held.values() if issubclass(type(each), torch.optim.Optimizer))
            optimizer = next(inner, optimizer)
    return optimizer
