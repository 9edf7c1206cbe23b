"""The backward pass that is running: what it was called on, and by whom."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from backsight.tape._torch import ENGINE_CALLS

_ENGINE = frozenset(map(id, ENGINE_CALLS))
"""By id: the hash of a code object is computed anew each time, of all that is in it."""


def running_backward() -> tuple[Any, FrameType] | None:
    """Return the roots of the backward that is running, and the frame that called for it; None if that cannot be told.

    To be asked in a hook. On a GPU, hooks run in a thread of the engine's: then another thread's stack shows the call,
    unless several do. None too for `torch.autograd.grad`: a derivative within the forward pass.
    """
    if found := _called(sys._getframe(1)):
        return _roots(found)
    this = threading.get_ident()  # our own frame, in a variable of its own, would be a cycle
    others = [frame for thread, frame in sys._current_frames().items() if thread != this]
    calls = [found for frame in others if (found := _called(frame))]
    return _roots(calls[0]) if len(calls) == 1 else None


def _called(frame: FrameType | None) -> FrameType | None:
    """Return the outermost call into the engine: a checkpoint's own backward runs within the program's."""
    outermost = None
    while frame is not None:
        if id(frame.f_code) in _ENGINE and frame.f_back is not None:
            outermost = frame
        frame = frame.f_back
    return outermost


def _roots(called: FrameType) -> tuple[Any, FrameType] | None:
    call, holds_roots = ENGINE_CALLS[called.f_code]
    caller = called.f_back
    return None if call == "grad" or caller is None else (called.f_locals[holds_roots], caller)
