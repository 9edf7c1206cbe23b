"""Every private attribute of PyTorch that testing live nodes touches, each with what we need of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from backsight.surface import take
from backsight.verification._torch import GENERATED, library


def same_versions(tensors: Sequence[torch.Tensor]) -> AbstractContextManager[Any]:
    """Give tensors their version back at the end: putting their old values back must not look like a change."""
    context: AbstractContextManager[Any] = _preserved(tuple(tensors))
    return context


_preserved: Any = take("torch.autograd.grad_mode._unsafe_preserve_version_counter", "verify of recorded graphs")


def saved_handles(node: Any) -> tuple[Any, ...]:
    """Return the handles on what a custom node saved; their `.data` runs no unpack hook.

    A handle points into its node: reading one whose node is gone kills the process.
    """
    return tuple(handle for handle in node._raw_saved_tensors or () if handle is not None)


def library_operator(cls: type) -> Any:
    """Return the operator of `torch.library` for which PyTorch made a Function; None for what people wrote."""
    if not cls.__name__.startswith(GENERATED):
        return None
    for name in library:
        namespace, _, operator = name.partition("::")
        if cls.__name__ == f"{GENERATED}{namespace}_{operator}_default":
            return getattr(getattr(torch.ops, namespace), operator)
    return None
