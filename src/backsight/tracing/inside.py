"""What the program's own code computes while a backward runs: hooks, and the backward of custom Functions."""

from __future__ import annotations

from types import CodeType, FrameType
from typing import Any

import torch

from backsight.naming.frames import locals_of
from backsight.tracing.program import innermost

Shape = tuple[int, ...]


class Inside:
    """The shapes of what functions were given, and of what their lines computed last, in the latest backward."""

    def __init__(self) -> None:
        self._given: dict[CodeType, Shape | None] = {}
        self._results: dict[tuple[CodeType, int], Shape] = {}

    def begin(self) -> None:
        """Forget what an earlier backward has computed."""
        self._given.clear()
        self._results.clear()

    def note(self, caller: FrameType, result: Any) -> None:
        """Note what a call has returned to the program."""
        frame = innermost(caller)
        if frame is None:
            return
        code = frame.f_code
        if code not in self._given:
            self._given[code] = _first(frame)
        self._results.pop((code, frame.f_lineno), None)  # so that the latest is the last
        if isinstance(result, torch.Tensor):
            self._results[code, frame.f_lineno] = tuple(result.shape)

    def shapes(self, file: str, first: int, last: int) -> tuple[Shape | None, Shape | None]:
        """Return the shape of the tensor that the function at some lines of a file was given last, and that of what
        these lines computed last; None for what was not seen."""
        found = [key for key in self._results if key[0].co_filename == file and first <= key[1] <= last]
        return (self._given.get(found[-1][0]), self._results[found[-1]]) if found else (None, None)


def _first(frame: FrameType) -> Shape | None:
    """The shape of the first tensor among the arguments of a function that runs."""
    held = locals_of(frame)
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    return next((tuple(each.shape) for each in map(held.get, names) if isinstance(each, torch.Tensor)), None)
