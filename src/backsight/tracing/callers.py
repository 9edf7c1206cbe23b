"""Calling a function as if the program's own frame did: a warning that it gives is then told of the program's line.

A mode stands between the program and PyTorch, and Python attributes a warning to the innermost frame: every line of the
program that gives it would count as one and the same. A frame is a code object at a line with some globals, so one with
the caller's file, line and globals is made for the few calls that are known to warn.

Source: CPython, Python/_warnings.c, `setup_context`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

from backsight.tracing._torch import HOOKED

_MOST = 10_000


def _template() -> CodeType:
    """Return the code of a function that makes a call one line above its own first line.

    Who measures coverage notes the way from the line of a call to the end of the function, by its first line. No
    function of the program has a line above its first: so this is none of its ways, and no branch counts as taken.
    """
    tree = ast.parse("\ndef _call(_function, _args, _kwargs): return _function(*_args, **_kwargs)")
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    ast.increment_lineno(function.body[0], -1)
    return next(each for each in compile(tree, __file__, "exec").co_consts if isinstance(each, CodeType))


_TEMPLATE = _template()
CALL_NAME = "backsight_call"
_codes: dict[tuple[int, int], tuple[CodeType, CodeType]] = {}
"""By the id of a code and an instruction in it, what passes for it, and the code, so that the id stays its own."""


def passing_for(frame: FrameType) -> Callable[[Any, Any, Any], Any]:
    """Return what calls the function that it is given, with arguments and named ones, in a frame like `frame`."""
    return FunctionType(passing_code(frame), frame.f_globals)


def passing_code(frame: FrameType) -> CodeType:
    """Return the code of what passes for `frame` at the instruction that it is at."""
    code = frame.f_code
    key = (id(code), frame.f_lasti)
    found = _codes.get(key)
    if found is None:
        if len(_codes) >= _MOST:
            _codes.clear()
        found = _codes[key] = _code_at(frame), code
    return found[0]


_LEVELS = 3
"""Callers that are passed for around a function written in Python."""


def callers(frame: FrameType) -> list[FrameType]:
    """Return a frame and those that have called it, innermost first, without the one that hooks add to a module's call.

    Source: torch/nn/modules/module.py, `_call_impl`.
    """
    found: list[FrameType] = []
    here: FrameType | None = frame
    while here is not None and len(found) < _LEVELS:
        if here.f_code not in HOOKED:
            found.append(here)
        here = here.f_back
    return found


def _code_at(frame: FrameType) -> CodeType:
    first = (frame.f_lineno or 0) + 1
    return _TEMPLATE.replace(co_filename=frame.f_code.co_filename, co_firstlineno=first, co_name=CALL_NAME)
