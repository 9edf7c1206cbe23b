"""The mode that sees the operations of a traced step."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import get_ident
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from backsight.traces._torch import FAKE, answers_itself, is_being_saved, put_below, take_out

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


FRESH = torch.ops.aten.lift_fresh.default
"""What `torch.tensor` hands its result to."""

_SAME = frozenset({torch.ops.aten.detach.default, torch.ops.aten.alias.default})
"""What returns the tensor that it was given, as far as numbers and memory go."""


def _says_nothing(func: Any, args: tuple[Any, ...]) -> bool:
    return (func in _SAME and not _cuts(func, args)) or getattr(func, "namespace", "") in ("prim", "profiler")


def _cuts(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether the program detaches a tensor, where a gradient would pass else."""
    if func is not torch.ops.aten.detach.default or not torch.is_grad_enabled() or not args:
        return False
    try:
        return bool(args[0].requires_grad) and not is_being_saved(args[0])
    except RuntimeError:  # what was saved is freed
        return False


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]  # PyTorch's modes are untyped
    """Tells of each operation of the thread that entered it, and of the backward passes that this thread starts.

    before: called with the operation; what it returns is handed, with the result, to `after`. Neither may raise.

    It lies below the modes of the program, is never told to `torch.compile`, and lets everything pass as it is: in a
    process that was forked off, and after `leave` in another thread than that which entered it, it does nothing else.
    """

    supports_higher_order_operators = True

    def __init__(self, before: Callable[[Call], Any], after: Callable[[Any, Any], None]):
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self._before, self._after = before, after
        self._process, self.thread = os.getpid(), 0
        self._idle = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def enter(self) -> None:
        """See the operations of this thread from here on."""
        self.thread, self._idle = get_ident(), False
        put_below(self)

    def leave(self) -> bool:
        """See no more; return whether it is off the stack, where it stays while it is at work or of another thread."""
        self._idle = True
        return get_ident() == self.thread and take_out(self)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if FAKE is not None and FAKE in types:
            return func(*args, **kwargs)  # of which there is nothing to tell
        if any(map(answers_itself, types)):
            return NotImplemented  # a subclass first turns the operation into those on its parts, which come here again
        if self._idle or os.getpid() != self._process or _says_nothing(func, args):
            return func(*args, **kwargs)
        ticket = self._before((func, args, kwargs))
        result = func(*args, **kwargs)
        if ticket is not None:
            self._after(ticket, result)
        return result
