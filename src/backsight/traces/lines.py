"""The line of the program that is at work: the innermost one that is neither PyTorch's nor ours."""

from __future__ import annotations

import linecache
import sys
from functools import cache
from types import FrameType

from backsight.blame import is_of_program
from backsight.tape import ENGINE_CALLS
from backsight.traces.records import Place


def place_here(*, within_backward: bool = False) -> Place | None:
    """Return the line of the program that is at work; None if there is none.

    within_backward: only as far as the call of the engine, as for a custom backward: what called it is not at work.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if within_backward and code in ENGINE_CALLS:
            return None
        if is_of_program(code.co_filename):
            return _place(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


@cache
def _place(file: str, line: int, function: str) -> Place:
    return Place(file, line, function, linecache.getline(file, line).strip()[:200])
