"""Hooks that torch.compile does not compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

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
