"""What an optimizer holds: a parameter by its place in a group."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from backsight.recording.called import called


@dataclass(frozen=True)
class HeldPlace:
    """A tensor that an optimizer holds and no module owns: an image that is optimized, a length scale, a table.

    As with those of modules, the tensor is looked up when it is needed.
    """

    optimizer: weakref.ref[torch.optim.Optimizer]
    group: int
    number: int
    name: str
    owner: None = None

    def tensor(self) -> torch.Tensor | None:
        """Return the tensor, or None if there is none now."""
        optimizer = self.optimizer()
        groups = [] if optimizer is None else _groups(optimizer)
        held = groups[self.group] if self.group < len(groups) else []
        return held[self.number] if self.number < len(held) else None

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether this tensor is the one in this place."""
        return self.tensor() is tensor


def unowned(optimizer: torch.optim.Optimizer, owned: set[int], taken: set[str]) -> Iterator[HeldPlace]:
    """Yield the places of those tensors that are not among the ids in `owned`, by names that are not in `taken`."""
    found = [
        (group, number, tensor)
        for group, tensors in enumerate(_groups(optimizer))
        for number, tensor in enumerate(tensors)
        if id(tensor) not in owned and issubclass(type(tensor), torch.Tensor)
    ]
    names = called([tensor for _, _, tensor in found]) if found else []
    for (group, number, _), name in zip(found, names, strict=True):
        given = name or f"{type(optimizer).__name__}.{group}.{number}"
        free, again = given, 2
        while free in taken:
            free, again = f"{given}_{again}", again + 1
        taken.add(free)
        yield HeldPlace(weakref.ref(optimizer), group, number, free)


def parameters_of(optimizer: torch.optim.Optimizer) -> set[int]:
    """Return the ids of what an optimizer holds itself; a wrapper that asks another one by a property holds nothing."""
    return {id(parameter) for parameters in _groups(optimizer) for parameter in parameters}


def plain_of(optimizer: torch.optim.Optimizer) -> set[int]:
    """Return the ids of what an optimizer holds that is a tensor and no `nn.Parameter`, so that no module owns it."""
    return {id(each) for parameters in _groups(optimizer) for each in parameters if type(each) is torch.Tensor}


def size_of(optimizer: torch.optim.Optimizer) -> int:
    """Return how many tensors an optimizer holds."""
    return sum(map(len, _groups(optimizer)))


def _groups(optimizer: torch.optim.Optimizer) -> list[list[Any]]:
    groups = object.__getattribute__(optimizer, "__dict__").get("param_groups")
    held = [group.get("params") for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []
    return [parameters for parameters in held if isinstance(parameters, list)]
