"""Whether another thread may train: what it holds is then looked at, and its gradients are not."""

from __future__ import annotations

import os
import sys
import threading
from functools import cache
from types import FrameType

import torch

from .roots import is_ours, is_user

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_LOADING = os.path.join(_TORCH, "utils", "data") + os.sep  # the threads of a DataLoader call no operation


def trains_elsewhere(here: int | None = None) -> bool:
    """Whether a thread apart from this one, and from `here`, which waits for it, is in the program or in PyTorch.

    Its backward fills gradients without the GIL: one that is read while it is replaced has crashed the process. That it
    waits now is no help, as it may go on amid a search.
    """
    stacks = sys._current_frames()
    for known in (threading.get_ident(), here):  # our own frame in a variable of its own would be a cycle
        stacks.pop(known, None)  # type: ignore[arg-type]  # None is nobody's
    return any(map(_may_train, stacks.values()))


def _may_train(innermost: FrameType) -> bool:
    frame: FrameType | None = innermost
    while frame is not None:
        if not is_ours(frame.f_code.co_filename) and (is_user(frame) or _is_torch(frame.f_code.co_filename)):
            return True
        frame = frame.f_back
    return False


@cache
def _is_torch(filename: str) -> bool:
    return filename.startswith(_TORCH) and not filename.startswith(_LOADING)
