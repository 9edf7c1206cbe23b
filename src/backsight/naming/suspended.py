"""The generators and coroutines of the program that wait for their next turn, whoever holds them.

Often no variable does: a loop holds what it goes through on the interpreter's stack alone, and an event loop its tasks
in C. So the garbage collector is asked, which takes some hundredths of a second.
"""

from __future__ import annotations

import gc
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType

from .roots import is_user

_FRAMES = {GeneratorType: "gi_frame", CoroutineType: "cr_frame", AsyncGeneratorType: "ag_frame"}
_RUNNING = {GeneratorType: "gi_running", CoroutineType: "cr_running", AsyncGeneratorType: "ag_running"}


def suspended() -> list[FrameType]:
    """Return their frames, which belong to no stack.

    >>> for loss in losses(batches):      # the frame of `losses`, while a statement of the loop asks
    """
    found = [each for each in gc.get_objects() if type(each) in _FRAMES and not getattr(each, _RUNNING[type(each)])]
    frames = [getattr(each, _FRAMES[type(each)]) for each in found]
    return [frame for frame in frames if frame is not None and is_user(frame)]
