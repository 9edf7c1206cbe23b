"""`surrogate`: say that the gradient of a Function is meant to differ from the derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch

_Function = TypeVar("_Function", bound="type[torch.autograd.Function]")

_DECLARED = "__backsight_surrogate__"

UNNAMED = "a surrogate gradient"
"""What a Function in `verify(surrogates=[...])` has, if its class does not say more."""


def surrogate(kind: str) -> Callable[[_Function], _Function]:
    """Declare that the gradient of a `torch.autograd.Function` deliberately differs from the derivative.

    ```python
    @backsight.surrogate("straight-through")
    class Round(torch.autograd.Function): ...
    ```

    `verify` then reports the difference as a note. Four kinds are held to their word, and a gradient that is something
    else is a warning: `straight-through` (each entry is grad_output or 0), `gradient-reversal` (a negative multiple of
    the derivative), `scaled` (a multiple of it) and `clipped` (the derivative up to a limit). Any other text describes
    the gradient to readers. Errors that no surrogate explains, such as a changed grad_output, are still errors.

    Raises:
        TypeError: if `kind` is no text, or what is decorated is no Function.
    """
    if not isinstance(kind, str) or not kind:
        raise TypeError('surrogate() expects what the gradient is, as in @backsight.surrogate("straight-through").')

    def declare(function: _Function) -> _Function:
        setattr(_function(function, "surrogate()"), _DECLARED, kind)
        return function

    return declare


def declared(function: type | None, surrogates: Iterable[type]) -> str | None:
    """Return what the gradient of a Function is declared to be, on its class or in a list; None where it is not."""
    if function is None:
        return None
    kind: str | None = vars(function).get(_DECLARED)  # a class that derives from it may have a backward of its own
    return UNNAMED if kind is None and function in surrogates else kind


def functions(surrogates: Iterable[Any] | None) -> frozenset[type]:
    """Return the Functions in `verify(surrogates=[...])`.

    Raises:
        TypeError: if something in it is no Function.
    """
    return frozenset(_function(each, "verify(surrogates=[...])") for each in surrogates or ())


def _function(value: Any, by: str) -> type:
    if isinstance(value, type) and issubclass(value, torch.autograd.Function):
        return value
    raise TypeError(f"{by} expects torch.autograd.Function classes, not {value!r}.")
