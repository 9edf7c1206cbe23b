"""The generators and coroutines of the program that wait for their next turn, whoever holds them.

Often no variable does: a loop holds what it goes through on the interpreter's stack alone, and an event loop its tasks
in C. So the garbage collector is asked who refers to the code of the program's generator functions and coroutines, if
it has any: that takes some hundredths of a second. All objects may not be listed: other threads are still building some
of them (`tape/alive.py`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, FunctionType, GeneratorType
from typing import Any

from .plain import class_dict, namespace
from .roots import is_library, is_user, user_globals

_FRAMES = {GeneratorType: "gi_frame", CoroutineType: "cr_frame", AsyncGeneratorType: "ag_frame"}
_RUNNING = {GeneratorType: "gi_running", CoroutineType: "cr_running", AsyncGeneratorType: "ag_running"}
_SUSPENDING = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


def suspended(frames: Iterable[FrameType] = ()) -> list[FrameType]:
    """Return their frames, which belong to no stack; `frames` are of the program too, as those of a traceback.

    >>> for loss in losses(batches):      # the frame of `losses`, while a statement of the loop asks

    Generator expressions are left out: nearly every program has some, and then each search would ask.

    Source: CPython, Python/frame.c, `_PyFrame_Traverse`: a generator refers to its code.
    """
    codes = [code for variables in user_globals(frames) for code in _codes(variables) if _may_wait(code, variables)]
    referring = gc.get_referrers(*codes) if codes else []
    found = [each for each in referring if type(each) in _FRAMES and not getattr(each, _RUNNING[type(each)])]
    waiting = [getattr(each, _FRAMES[type(each)]) for each in found]
    return [frame for frame in waiting if frame is not None and is_user(frame)]


def _may_wait(code: CodeType, variables: dict[str, object]) -> bool:
    """Whether code is of the program's generators and coroutines: not of a class that it has imported, as `Path` is."""
    file = code.co_filename
    return bool(code.co_flags & _SUSPENDING) and (not is_library(file) or file == variables.get("__file__"))


def _codes(variables: dict[str, object]) -> Iterator[CodeType]:
    """The code of the functions and methods among these variables, of what decorators wrap, and of what is in them."""
    values: list[Any] = list(variables.values())
    for each in values[:]:
        if issubclass(type(each), type):  # `isinstance` would ask what a program's object says of its class
            values += class_dict(each).values()
    codes: dict[CodeType, None] = {}
    while values:
        each = values.pop()
        if type(each) in (staticmethod, classmethod):
            values.append(each.__func__)
        elif type(each) is FunctionType and each.__code__ not in codes:
            codes[each.__code__] = None
            values.append((namespace(each) or {}).get("__wrapped__"))
    inner = list(codes)
    for code in inner:  # grows as we go
        inner += [each for each in code.co_consts if type(each) is CodeType and each.co_name != "<genexpr>"]
    yield from inner
