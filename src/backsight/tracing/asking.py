"""Which function of PyTorch's has asked a mode.

A function written in Python asks by its name: `handle_torch_function(cross_entropy, ...)` hands over what stands under
that name now. Where the program has put a wrapper there, which calls what stood there before, a mode that calls what it
was handed would run the wrapper twice. So what is called is the function that asks.

Source: torch/overrides.py, `handle_torch_function`.
"""

from __future__ import annotations

import gc
from types import CodeType, FrameType, FunctionType
from typing import Any

from backsight.tracing._torch import HANDLE
from backsight.tracing.kinds import is_pytorchs

_found: dict[int, tuple[CodeType, FunctionType | None]] = {}
"""By the id of a code, the code and the function that it is of."""


def who_asked(function: Any, frame: FrameType) -> Any:
    """Return the function to call for one that a mode was handed in `frame`: itself, unless a wrapper took its name."""
    asking = frame.f_back
    if frame.f_code is not HANDLE or asking is None or _is_of_torch(function):
        return function
    if not str(asking.f_globals.get("__name__", "")).startswith("torch."):
        return function  # one of the program's own, which may say what it likes
    return _function_of(asking.f_code) or function


def _is_of_torch(function: Any) -> bool:
    if type(function) is FunctionType:
        return str(function.__globals__.get("__name__", "")).split(".")[0] == "torch"
    return is_pytorchs(function) or type(function).__module__.split(".")[0] == "torch"


def _function_of(code: CodeType) -> FunctionType | None:
    """Return the only function of a code; closures share theirs, and are not told apart."""
    held = _found.get(id(code))
    if held is None:
        functions = [each for each in gc.get_referrers(code) if type(each) is FunctionType and each.__code__ is code]
        held = _found[id(code)] = code, functions[0] if len(functions) == 1 else None
    return held[1]
