"""Which function of PyTorch's has asked a mode.

A function written in Python asks by its name: `handle_torch_function(cross_entropy, ...)` hands over what stands under
that name now. So does a method written in C, by its name in `torch.Tensor`. Where the program has put a wrapper there,
which calls what stood there before, a mode that calls what it was handed would run the wrapper twice. So what is called
is the function that asks.

Source: torch/overrides.py, `handle_torch_function`; torch/csrc/utils/python_arg_parser.cpp, the functions of that name.
"""

from __future__ import annotations

import gc
from types import CodeType, FrameType, FunctionType, MethodWrapperType
from typing import Any

import torch

from backsight.tracing._torch import HANDLE
from backsight.tracing.kinds import is_pytorchs

_found: dict[int, tuple[CodeType, FunctionType | None]] = {}
"""By the id of a code, the code and the function that it is of."""


def who_asked(function: Any, frame: FrameType) -> Any:
    """Return the function to call for one that a mode was handed in `frame`: itself, unless a wrapper took its name."""
    if frame.f_code is not HANDLE:
        return _method_behind(function)
    asking = frame.f_back
    if asking is None or _is_of_torch(function):
        return function
    if not str(asking.f_globals.get("__name__", "")).startswith("torch."):
        return function  # one of the program's own, which may say what it likes
    return _function_of(asking) or function


def _method_behind(function: Any) -> Any:
    """Return the method or property written in C that has asked where the program has put `function` in its place."""
    is_property = type(function) is MethodWrapperType
    held = function.__self__ if is_property else function
    if type(held) is _DESCRIPTOR or (not is_property and _is_of_torch(function)):
        return function
    name = next((name for name, value in vars(torch.Tensor).items() if value is held), None)
    base = _WRITTEN_IN_C.get(name) if name is not None else None
    if base is None:
        return function
    return getattr(base, function.__name__) if is_property else base


_WRITTEN_IN_C = vars(torch.Tensor.__base__)
_DESCRIPTOR = type(_WRITTEN_IN_C["requires_grad"])


def _is_of_torch(function: Any) -> bool:
    if type(function) is FunctionType:
        return str(function.__globals__.get("__name__", "")).split(".")[0] == "torch"
    return is_pytorchs(function) or type(function).__module__.split(".")[0] == "torch"


def _function_of(asking: FrameType) -> FunctionType | None:
    """Return the only function of a frame's code; closures share theirs, and are not told apart.

    After `gc.freeze()` nobody can be asked who refers to it: then one is made of the code, which has no defaults. It is
    called with all that the asking one was given.
    """
    code = asking.f_code
    held = _found.get(id(code))
    if held is None:
        functions = [each for each in gc.get_referrers(code) if type(each) is FunctionType and each.__code__ is code]
        if not functions and not code.co_freevars:
            functions = [FunctionType(code, asking.f_globals, code.co_name)]
        held = _found[id(code)] = code, functions[0] if len(functions) == 1 else None
    return held[1]
