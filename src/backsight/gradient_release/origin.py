"""The line of an optimizer's own code that is being run."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch

_TORCH = str(Path(torch.__file__).parent)
_OURS = str(Path(__file__).parent)


class Line(NamedTuple):
    """A line of source text."""

    file: str
    number: int

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.number).strip()
        return f"{Path(self.file).name}:{self.number}" + (f": `{text}`" if text else "")


def line_of(call: str) -> Line:
    """Return the innermost line outside of PyTorch that runs within our function `call`, or the outermost within it."""
    frame = sys._getframe(1)
    outermost = Line("?", 0)
    found: Line | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_OURS):
            if frame.f_code.co_name == call:
                break
        else:
            outermost = Line(file, frame.f_lineno)
            if found is None and not file.startswith(_TORCH):
                found = outermost
        frame = frame.f_back  # type: ignore[assignment]  # the last one has none
    return found or outermost


def line_of_failure(failure: BaseException) -> Line:
    """Return the innermost line outside of PyTorch, and of ours, from which an exception came."""
    found = Line("?", 0)
    trace = failure.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((_TORCH, _OURS)):
            found = Line(file, trace.tb_lineno)
        trace = trace.tb_next
    return found


class Trail:
    """The lines outside of PyTorch that run within a `with`, in their order."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._before: Any = None

    def parts_from(self, other: Trail) -> Line | None:
        """Return the last line that two trails have in common, before they part; None if they do not."""
        shared: Line | None = None
        for one, another in zip(self._lines, other._lines, strict=False):
            if one != another:
                return shared
            shared = one
        return None

    def __enter__(self) -> Trail:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *failure: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if file.startswith((_TORCH, _OURS, "<")):
            return None
        if event == "line":
            self._lines.append(Line(file, frame.f_lineno))
        return self._trace
