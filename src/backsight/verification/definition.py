"""`Definition`: where the forward and the backward of a user's operation are written."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from backsight.verification._torch import library_backward
from backsight.verification.custom import backward_of, method


@dataclass(frozen=True)
class Definition:
    """The functions behind a `torch.autograd.Function` or a `torch.library.custom_op`.

    `takes_ctx` says whether the first parameter of forward is `ctx`; backward's always is.
    """

    forward: FunctionType | None
    backward: FunctionType | None
    takes_ctx: bool = False

    @classmethod
    def of_function(cls, function: Any) -> Definition:
        """Return that of a `torch.autograd.Function`."""
        takes_ctx = function.setup_context is torch.autograd.Function.setup_context
        return cls(method(function, "forward"), backward_of(function), takes_ctx)

    @classmethod
    def of_operator(cls, operator: Callable[..., Any]) -> Definition | None:
        """Return that of an operator of `torch.library`; None for PyTorch's own."""
        found = library_backward(operator)
        if found is None:
            return None
        forward, backward = (inspect.unwrap(each) if callable(each) else None for each in found)
        return cls(_plain(forward), _plain(backward))

    def parameters(self, count: int) -> list[str]:
        """Return what the first `count` arguments are called, without `ctx`."""
        if self.forward is None:
            return [f"argument {k}" for k in range(count)]
        signed = list(inspect.signature(self.forward).parameters.values())[int(self.takes_ctx) :]
        names = [each.name for each in signed if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        starred = next((each.name for each in signed if each.kind is each.VAR_POSITIONAL), "")
        rest = [f"{starred}[{k}]" if starred else f"argument {len(names) + k}" for k in range(count - len(names))]
        return [*names, *rest]


def _plain(function: Any) -> FunctionType | None:
    return function if isinstance(function, FunctionType) else None
