"""`MadeUpValues`: numbers for an optimizer that reads its tensors, where fake ones have none."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode

from backsight.memory._torch import DataDependentOutput

_READERS = {
    torch.Tensor.item: None,
    torch.Tensor.__float__: float,
    torch.Tensor.__int__: int,
    torch.Tensor.__bool__: bool,
}

_DEPTH = 12
"""Frames between a `step` and where it reads a value, at most."""


class MadeUpValues(TorchFunctionMode):
    """Answer 1 where the step of an optimizer reads a value that is not known.

    Adafactor reads the norm of each weight, others their step count. Such a value changes the size of the update, and
    not that of a tensor; a model or a loop that reads one may well do something else then, and gets the error.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _READERS:
            return func(*args, **(kwargs or {}))
        try:
            return func(*args, **(kwargs or {}))
        except DataDependentOutput:
            if not _optimizing():
                raise
        convert = _READERS[func] or (float if args[0].is_floating_point() else int)
        return convert(1)


def _optimizing() -> bool:
    """Whether this is called from the step of an optimizer."""
    frame = sys._getframe(2)
    for _ in range(_DEPTH):
        if frame.f_code.co_name == "step" and isinstance(frame.f_locals.get("self"), Optimizer):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False
