"""What snapshots need of PyTorch beyond its documented surface, each with the reason."""

from __future__ import annotations

from contextlib import AbstractContextManager

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


def optimized(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the parameters of an optimizer; none of one that is still being made."""
    groups = getattr(optimizer, "param_groups", ())  # a property in wrappers such as Accelerate's
    return [parameter for group in groups for parameter in group["params"]]
