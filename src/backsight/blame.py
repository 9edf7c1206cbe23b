"""Warnings that show the line of the program that they are about, and none of ours."""

from __future__ import annotations

import os
import sys
import warnings
from functools import cache
from types import FrameType

from backsight.text import inert

_LIBRARY = os.path.dirname(os.__file__) + os.sep
_BACKSIGHT = os.path.dirname(__file__) + os.sep
_LAUNCHERS = f"{os.sep}backsight", os.path.join(f"{os.sep}backsight.exe", "__main__.py")


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the innermost line of the program; at `sys:1`, as Python does, in a thread that runs none of its lines.

    ```python
    warn("backsight: recording into run-2 instead", RecordingWarning)    # train.py:12: RecordingWarning: ...
    ```
    """
    warnings.warn(inert(text), category, stacklevel=_levels_to_program(sys._getframe(1)))


def warn_only(text: str, category: type[Warning]) -> None:
    """Warn, and print the text where warnings are errors: a failure of ours must not become one of the training."""
    try:
        warn(text, category)
    except category:
        if sys.stderr is not None:
            print(inert(text), file=sys.stderr, flush=True)


@cache
def is_of_program(file: str) -> bool:
    """Whether a file of code is the program's or a library's: neither PyTorch's, nor ours, nor Python's."""
    if file.startswith((*_not_the_programs(), "<frozen")) or "torchinductor_" in file:  # what torch.compile has written
        return False
    if is_launcher(file):
        return False
    return not file.startswith(_LIBRARY) or "site-packages" in file


def is_launcher(file: str) -> bool:
    """Whether it is the script that pip writes to start us: `bin/backsight`, `backsight.exe/__main__.py` on Windows."""
    return file.endswith(_LAUNCHERS)


def _not_the_programs() -> tuple[str, ...]:
    torch = sys.modules.get("torch")  # not imported here: a run is read without it
    return (_BACKSIGHT,) if torch is None else (_BACKSIGHT, os.path.dirname(str(torch.__file__)) + os.sep)


def _levels_to_program(caller: FrameType) -> int:
    """Return the `stacklevel` for the function that `caller` calls."""
    levels, frame = 2, caller
    while not is_of_program(frame.f_code.co_filename):
        levels += 1
        if frame.f_back is None:
            break
        frame = frame.f_back
    return levels
