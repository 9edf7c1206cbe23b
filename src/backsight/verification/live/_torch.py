"""Every private attribute of PyTorch that testing live nodes touches, each with what we need of it."""

from __future__ import annotations

from typing import Any

import torch

from backsight.tape import raw_of_custom
from backsight.verification._torch import GENERATED, library


def saved_handles(node: Any) -> tuple[Any, ...]:
    """Return the handles on what a custom node saved; their `.data` runs no unpack hook.

    A handle points into its node: reading one whose node is gone kills the process. Of a node that was released there
    is none; before PyTorch 2.13 its wrapper does not keep a custom node alive, and its output has to be held.
    """
    try:
        return tuple(handle for handle in raw_of_custom(node) or () if handle is not None)
    except RuntimeError:
        return ()


def library_operator(cls: type) -> Any:
    """Return the operator of `torch.library` for which PyTorch made a Function; None for what people wrote."""
    if not cls.__name__.startswith(GENERATED):
        return None
    for name in library:
        namespace, _, operator = name.partition("::")
        if cls.__name__ == f"{GENERATED}{namespace}_{operator}_default":
            return getattr(getattr(torch.ops, namespace), operator)
    return None
