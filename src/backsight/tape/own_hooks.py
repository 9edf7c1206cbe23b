"""What keeps our hooks unnoticed: by `torch.compile`, and in the numbers that PyTorch gives to hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from torch.utils.hooks import RemovableHandle

from backsight.quiet import hide, is_hidden, show
from backsight.tape._torch import leave_uncompiled

F = TypeVar("F", bound=Callable[..., Any])


def uncompiled(hook: F) -> F:
    """Return a hook, whose own frames torch.compile now leaves alone, and those of all that it calls.

    What a compiled function calls outside of its graphs is offered to the compiler, frame by frame. Modules of PyTorch
    are not compiled so (`torch.nn.Sequential(...).compile()`), but the hooks that they call would be.

    Where the call of a hook is a part of what is compiled, it is traced all the same: there hooks vanish by asking
    `torch.compiler.is_compiling()` first.

    Source: torch/csrc/dynamo/eval_frame.c, `dynamo__custom_eval_frame`.
    """
    leave_uncompiled(hook.__code__)
    return hook


_TEXT = r"Using `torch\.compile\(module\)` when there are global hooks on modules"
"""Calling a compiled module warns of global hooks, which run once more for its wrapper; ours are no-ops in there."""

_entry: tuple[Any, ...] | None = None
_users = 0


class Hushed:
    """Keeps that one warning away until `remove` is called; all others pass, and later filters of the user's count."""

    def __init__(self) -> None:
        global _entry, _users
        _users += 1
        if _entry is None or not is_hidden(_entry):
            _entry = hide(UserWarning, _TEXT)

    def remove(self) -> None:
        """Take the filter away again, unless another still needs it."""
        global _users
        _users -= 1
        if not _users and _entry is not None:
            show(_entry)


_next = 2**40


@contextmanager
def unnumbered() -> Iterator[None]:
    """Give hooks that are registered within numbers that no program reaches.

    PyTorch numbers all hooks of a process in one row. The numbers are keys of dicts that are saved with a model, so a
    model whose hooks were registered after some of ours would be saved differently.

    Source: torch/utils/hooks.py, `RemovableHandle`.
    """
    global _next
    before = RemovableHandle.next_id
    RemovableHandle.next_id = _next
    try:
        yield
    finally:
        _next = RemovableHandle.next_id
        RemovableHandle.next_id = before
