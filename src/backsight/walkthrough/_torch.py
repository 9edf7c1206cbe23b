"""Every private attribute of PyTorch that a walk touches, each with what we need of it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.utils.checkpoint

_WRAPPED = 2**63
"""Saved integers are read without their sign: a `dim` of -1 comes back as 2**64 - 1."""


def recompute_once() -> Any:
    """Return a group in which a checkpointed region is recomputed once, as in one call of `backward()`.

    Without it non-reentrant checkpointing would run the forward again at every saved tensor that is read.
    """
    group = getattr(torch.utils.checkpoint, "GraphExecGroup", None)
    return None if group is None else group()


def inside(group: Any) -> AbstractContextManager[Any]:
    """Enter a group of `recompute_once`, unless the caller is in one already."""
    return nullcontext() if group is None or group._get_current_group() is not None else group


def hooks_of(leaf: torch.Tensor) -> int:
    """Return how many hooks of the user's wait at `leaf`; those of other tensors cannot be seen from Python."""
    dictionaries = (leaf._backward_hooks, getattr(leaf, "_post_accumulate_grad_hooks", None))
    return sum(len(hooks) for hooks in dictionaries if hooks)


def saved(node: Any, name: str) -> Any:
    """Return what `node` saved as `name`, with the sign that integers lose.

    Raises:
        LookupError: if nothing of that name was saved, or if only running the user's unpack hook would tell.
    """
    raw = getattr(node, f"_raw_saved_{name}", None)
    handles = raw if isinstance(raw, (tuple, list)) else (raw,)
    if any(handle is not None and handle.unpack_hook is not None for handle in handles):
        raise LookupError(f"{name!r} is packed by a hook (checkpointing, for instance) and is not unpacked here")
    if not hasattr(type(node), f"_saved_{name}"):
        raise LookupError(f"{name!r} was not saved")
    return _signed(getattr(node, f"_saved_{name}"))


def _signed(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_signed, value))
    return value - 2 * _WRAPPED if isinstance(value, int) and value >= _WRAPPED else value
