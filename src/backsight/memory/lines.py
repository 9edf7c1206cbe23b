"""The line of the program that made a tensor: the innermost one that is neither PyTorch's nor ours."""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any

from backsight.blame import is_launcher, is_of_program

_RELATIVE = ("torch/", "backsight/", "<", "contextlib.py", "functools.py", "threading.py")
"""What is not the program's, as PyTorch's profiler names files: without the folders that modules are imported from."""


def source_here() -> str:
    """Return the line of the program that is at work, as `model.py:41`; empty if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_of_program(file) and not file.startswith("<"):
            return f"{os.path.basename(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def source_of(event: Any) -> str:
    """Return the line of the program in a call that PyTorch's profiler saw; empty if the call is not of the program.

    The profiler knows the line of a call, and not that of `x @ y`: within a function of the program that calls nothing
    it is the function, as `forward of model.py:30`. Names that are no text, as it sometimes has them, tell nothing.
    """
    try:
        return _source(event.extra_fields)
    except UnicodeDecodeError:
        return ""


def _source(said: Any) -> str:
    inner = getattr(said, "callsite", None)  # a function in C has none
    if inner is not None and _is_of_program(inner.file_name):
        return f"{inner.function_name} of {os.path.basename(inner.file_name)}:{inner.line_number}"
    caller = said.caller
    if caller is None or not _is_of_program(caller.file_name):
        return ""
    return f"{os.path.basename(caller.file_name)}:{caller.line_number}"


def _is_of_program(file: str) -> bool:
    return not file.startswith(_RELATIVE) and not is_launcher(os.path.abspath(file))
