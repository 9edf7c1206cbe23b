"""Calling a function as if the program's own frame did: a warning that it gives is then told of the program's line.

A mode stands between the program and PyTorch, and Python attributes a warning to the innermost frame: every line of the
program that gives it would count as one and the same. A frame is a code object at a line with some globals, so one with
the caller's file, line and globals is made for the few calls that are known to warn.

Source: CPython, Python/_warnings.c, `setup_context`.
"""

from __future__ import annotations

from types import CodeType, FrameType, FunctionType
from typing import Any

_MOST = 1000


def _call(_function: Any, _args: Any, _kwargs: Any) -> Any:
    return _function(*_args, **_kwargs)


CALL_NAME = "backsight_call"
_codes: dict[tuple[str, int], CodeType] = {}


def called_from(frame: FrameType, function: Any, args: Any, kwargs: Any) -> Any:
    """Call `function` in a frame that passes for `frame`."""
    key = (frame.f_code.co_filename, frame.f_lineno)
    code = _codes.get(key)
    if code is None:
        if len(_codes) >= _MOST:
            _codes.clear()
        template = _call.__code__
        behind = template.co_firstlineno + 1  # the line of the call within, which is to be the caller's
        first = key[1] - (behind - template.co_firstlineno)
        code = template.replace(co_filename=key[0], co_firstlineno=max(first, 0), co_name=CALL_NAME)
        _codes[key] = code
    return FunctionType(code, frame.f_globals)(function, args, kwargs)
