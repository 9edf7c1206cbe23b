"""Every tensor of the process that has a history, found without asking any object but tensors anything."""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch

from backsight.naming.elsewhere import trains_elsewhere
from backsight.naming.roots import is_ours, is_user
from backsight.tape import alive, grad_fn, looks_into, version

_STANDARD = sysconfig.get_path("stdlib")

# Bound once: they are asked of every tensor of the process.
_TENSOR: Any = torch.Tensor
_requires_grad: Callable[[object], bool] = _TENSOR.requires_grad.__get__
_is_leaf: Callable[[object], bool] = _TENSOR.is_leaf.__get__


def with_history() -> list[torch.Tensor]:
    """Return the tensors that operations have made and whose graph is alive, and gradients that have one.

    A tensor that is only held by C++ is not listed, but its graph is, where a variable holds something further on.
    """
    found, leaves = _told_apart(alive(torch.Tensor))
    if not trains_elsewhere():
        known = set(map(id, found))
        gradients = [each for each in map(_gradient, leaves) if each is not None and id(each) not in known]
        found += _told_apart(gradients)[0]
    return found


def maker(tensor: torch.Tensor) -> object | None:
    """Return the node that made a tensor; of a view that may be out of date, the one that made what it looks into.

    Autograd mends the history of such a view when it is asked for it, by a new node. Of a view that a graph has saved
    that may close a circle in C++ which nothing frees. So it is not asked.

    Source: torch/csrc/autograd/variable.cpp, `VariableHooks::grad_fn`.
    """
    base = _changed_base(tensor)
    try:
        node: object | None = grad_fn(tensor if base is None else base)
    except RuntimeError:  # a view whose history was lost
        return None
    return node


def _changed_base(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return what a view looks into, if that was ever changed in place; None for all other tensors."""
    base = looks_into(tensor)
    return base if base is not None and version(tensor) else None


def _told_apart(tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the tensors that have a history, and the leaves that require a gradient."""
    found: list[torch.Tensor] = []
    leaves: list[torch.Tensor] = []
    for tensor in tensors:
        try:
            if _requires_grad(tensor):
                base = _changed_base(tensor)
                if base is not None:
                    if not _is_leaf(base):
                        found.append(tensor)
                else:
                    (leaves if _is_leaf(tensor) else found).append(tensor)
        except RuntimeError:  # a view whose history was lost, an inference tensor
            continue
    return found, leaves


def _gradient(leaf: torch.Tensor) -> torch.Tensor | None:
    """Return the gradient of a leaf, which Python need not know: `backward(create_graph=True)` gives it a graph."""
    try:
        gradient: torch.Tensor | None = _TENSOR.grad.__get__(leaf)
    except RuntimeError:  # wrapper subclasses may refuse
        return None
    return gradient


def works_elsewhere() -> bool:
    """Whether another thread runs code of the program's: its tensors may change while they are looked at.

    One that waits, as in a queue, or that is ours or a library's alone, has no frame of the program's at its end.
    """
    stacks = sys._current_frames()
    del stacks[threading.get_ident()]
    return any(_works(frame) for frame in stacks.values())


def _works(frame: FrameType) -> bool:
    """Whether a thread is in code of the program's, or in PyTorch called by it; not where it waits in the standard
    library."""
    innermost = frame.f_code.co_filename
    standard = innermost.startswith(_STANDARD) and "-packages" not in innermost
    if standard or is_ours(innermost):
        return False
    here: FrameType | None = frame
    while here is not None and not is_user(here):
        here = here.f_back
    return here is not None
