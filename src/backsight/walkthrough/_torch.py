"""Every private attribute of PyTorch that a walk touches, each with what we need of it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.utils.checkpoint

from backsight.surface import take, there
from backsight.tape import CHECKED, RAW

_WRAPPED = 2**63
"""Saved integers are read without their sign: a `dim` of -1 comes back as 2**64 - 1."""


_group: Any = take("torch.utils.checkpoint.GraphExecGroup", "walk through checkpoints at once", without=None)


def recompute_once() -> Any:
    """Return a group in which a checkpointed region is recomputed once, as in one call of `backward()`.

    Without it non-reentrant checkpointing would run the forward again at every saved tensor that is read.
    """
    return None if _group is None else _group()


def inside(group: Any) -> AbstractContextManager[Any]:
    """Enter a group of `recompute_once`, unless the caller is in one already."""
    return nullcontext() if group is None or group._get_current_group() is not None else group


_HOOKS = [
    name
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks")
    if there(f"torch.Tensor.{name}", "hooks shown in a walk")
]


def hooks_of(leaf: torch.Tensor) -> int:
    """Return how many hooks of the user's wait at `leaf`; those of other tensors cannot be seen from Python."""
    dictionaries = (getattr(leaf, name) for name in _HOOKS)
    return sum(len(hooks) for hooks in dictionaries if hooks)


def saved(node: Any, name: str) -> Any:
    """Return what `node` saved as `name`, with the sign that integers lose.

    Raises:
        LookupError: if nothing of that name was saved, or if only running the user's unpack hook would tell.
    """
    raw = getattr(node, f"{RAW}{name}", None)
    handles = raw if isinstance(raw, (tuple, list)) else (raw,)
    if any(handle is not None and handle.unpack_hook is not None for handle in handles):
        raise LookupError(f"{name!r} is packed by a hook (checkpointing, for instance) and is not unpacked here")
    if not hasattr(type(node), f"{CHECKED}{name}"):
        raise LookupError(f"{name!r} was not saved")
    return _signed(getattr(node, f"{CHECKED}{name}"))


def _signed(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_signed, value))
    return value - 2 * _WRAPPED if isinstance(value, int) and value >= _WRAPPED else value
