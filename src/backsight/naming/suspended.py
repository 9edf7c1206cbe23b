"""The generators and coroutines of the program that wait for their next turn, whoever holds them.

Often no variable does: a loop holds what it goes through on the interpreter's stack alone, and an event loop its tasks
in C. So the garbage collector is asked, which takes some hundredths of a second: who refers to the variables of the
program's modules (its functions), and who to those functions (what they have started). All objects may not be listed:
other threads are still building some of them (`tape/alive.py`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from itertools import chain
from types import AsyncGeneratorType, CoroutineType, FrameType, FunctionType, GeneratorType

from .roots import is_user, user_globals

_FRAMES = {GeneratorType: "gi_frame", CoroutineType: "cr_frame", AsyncGeneratorType: "ag_frame"}
_RUNNING = {GeneratorType: "gi_running", CoroutineType: "cr_running", AsyncGeneratorType: "ag_running"}
_SUSPENDING = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


def suspended(frames: Iterable[FrameType] = ()) -> list[FrameType]:
    """Return their frames, which belong to no stack; `frames` are of the program too, as those of a traceback.

    >>> for loss in losses(batches):      # the frame of `losses`, while a statement of the loop asks

    Before Python 3.11, those of a function that is gone are not found, as a generator expression's is.

    Source: CPython, Python/frame.c, `_PyFrame_Traverse`: a generator refers to its function and its code.
    """
    variables = user_globals(frames)
    held = chain.from_iterable(map(dict.values, variables))  # after `gc.freeze()` nobody is known to refer to anything
    functions = [each for each in chain(gc.get_referrers(*variables), held) if type(each) is FunctionType]
    suspending = [each for each in functions if each.__code__.co_flags & _SUSPENDING]
    referring = gc.get_referrers(*suspending, *(each.__code__ for each in suspending))
    found = [each for each in referring if type(each) in _FRAMES and not getattr(each, _RUNNING[type(each)])]
    waiting = [getattr(each, _FRAMES[type(each)]) for each in found]
    return [frame for frame in waiting if frame is not None and is_user(frame)]
