"""Every private attribute of PyTorch that the tracing touches, each with what we need of it.

`tests/tracing/test_private_surface.py` fails loudly when one of them changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn

from backsight.surface import code_of, take
from backsight.tape import is_jit_traced, next_sequence_number

next_number = next_sequence_number
"""The number that the next node of this thread will get."""

NEW_FUNCTION: CodeType | None = take(
    "torch.autograd.function.FunctionMeta.__init__", "Functions defined while watched", without=None, read=code_of
)
"""The code that runs once for each new subclass of `torch.autograd.Function`, its `cls`."""

HANDLE: CodeType | None = take("torch.overrides.handle_torch_function", "tidy tracebacks", without=None, read=code_of)
"""The code through which a function written in Python asks a mode."""


def _within(function: Any) -> frozenset[CodeType]:
    return frozenset(each for each in code_of(function).co_consts if type(each) is CodeType)


HOOKED: frozenset[CodeType] = take("torch.nn.Module._call_impl", "tidy tracebacks", without=frozenset(), read=_within)
"""The code of the frame that hooks add to the call of a module."""

PLAIN_TYPES = frozenset({torch.Tensor, nn.Parameter})


def run_with(
    mode: Any, function: Any, types: Any, args: Sequence[Any], kwargs: Mapping[str, Any], call: Callable[..., Any]
) -> Any:
    """Call `function`, about which `mode` was asked, with `mode` on within the call where that changes nothing.

    `call` is what calls it, given the function, the arguments and those by name. The mode stays off where another mode
    or a subclass of Tensor is asked about the call too, which they would not be.
    """
    if _depth() or not PLAIN_TYPES.issuperset(types):
        return call(function, args, kwargs)
    alike = _unasking(function)
    if alike is None:
        return call(function, args, kwargs)
    put(mode)
    try:
        return call(alike, args, kwargs)
    finally:
        remove(mode)


_QUESTIONS = frozenset({"has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"})
"""By what a function written in Python asks whether a mode is on or a subclass of Tensor is among what it was given."""


def _unasking(function: Any) -> FunctionType | None:
    """Return `function`, with the same code, for which the answer is always no; None where it asks in another way."""
    questions = _QUESTIONS.intersection(function.__code__.co_names) if type(function) is FunctionType else ()
    if not questions:
        return None
    scope = {**function.__globals__, **dict.fromkeys(questions, lambda *_: False)}
    alike = FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
    alike.__kwdefaults__ = function.__kwdefaults__
    return alike


def is_traced() -> bool:
    """Whether what is computed now is recorded or faked: by `torch.export`, `make_fx`, `torch.jit.trace`."""
    return dispatch_modes() > 0 or is_jit_traced()


dispatch_modes: Callable[[], int] = take("torch._C._len_torch_dispatch_stack", "traced programs", without=lambda: 0)
"""Return how many modes see what is computed in this thread."""

_push: Any = take("torch._C._push_on_torch_function_stack", "exact watch", without=None)
_pop: Any = take("torch._C._pop_torch_function_stack", "exact watch", without=None)
_depth: Any = take("torch._C._len_torch_function_stack", "exact watch", without=None)

_DEVICE: Any = take("torch.utils._device.DeviceContext", "exact watch", without=None)


def _is_lowest(mode: Any) -> bool:
    """Whether a mode takes itself off from the lowest place: that of `torch.set_default_device`, but not that of
    `with torch.device(...)`, which does without the `__enter__` that remembers the device before.

    Source: torch/utils/_device.py, `DeviceContext.__exit__`; torch/csrc/Device.cpp, `THPDevice_exit`.
    """
    return type(mode) is _DEVICE and "old_device" in vars(mode)


function_modes: Callable[[], int] = _depth or (lambda: 1)
"""Return how many modes see calls in this thread; within a call that one sees, those below it."""

SEES_CALLS = None not in (_push, _pop, _depth)
"""Whether a mode can be put on and taken off, which is how the exact level sees calls."""


def in_transform() -> bool:
    """Whether this thread is inside of a `vmap`, `grad` or other transform, whose tensors stand for others."""
    return _transform() is not None


_transform: Callable[[], Any] = take(
    "torch._C._functorch.peek_interpreter_stack", "NaN origins inside transforms", without=lambda: None
)


def put(mode: Any) -> None:
    """Put a mode below all others of this thread's, so that whoever takes off the topmost takes off their own."""
    above = [_pop() for _ in range(_depth())]
    if above and _is_lowest(above[-1]):
        _push(above.pop())
    _push(mode)
    for other in reversed(above):
        _push(other)


def remove(mode: Any) -> bool:
    """Take a mode away from wherever it stands among this thread's; False if it is not there."""
    above = []
    found = False
    while _depth() and not found:
        top = _pop()
        found = top is mode
        if not found:
            above.append(top)
    for other in reversed(above):
        _push(other)
    return found


COMPILE: CodeType | None = take("torch.compile", "compiled functions", without=None, read=code_of)
"""The code of `torch.compile`, after which there may be compiled functions."""


def has_compiled() -> bool:
    """Whether `torch.compile` may have compiled something; the compiler is imported by every optimizer.

    Source: torch/_dynamo/convert_frame.py, which counts the frames that it was given.
    """
    compiler = sys.modules.get("torch._dynamo.convert_frame")
    return compiler is not None and getattr(compiler, "FRAME_COUNTER", 1) > 0


def compiled_wrapper() -> CodeType | None:
    """Return the code that is around every compiled function; None while no compiler is imported."""
    frames = sys.modules.get("torch._dynamo.eval_frame")
    context = getattr(frames, "_TorchDynamoContext", None)
    if context is None:
        return None
    call = getattr(vars(context).get("__call__"), "__code__", None)
    inner = (each for each in getattr(call, "co_consts", ()) if type(each) is CodeType)
    return next((code for code in inner if code.co_name in ("compile_wrapper", "_fn")), None)


_FAST = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
"""Modules that ask whether a mode is on, and if so do not take their fast path for inference."""


def must_not_see_a_mode(module: nn.Module) -> bool:
    """Whether a call of `module` would go another way with a mode on: compiled code would be compiled anew for it, and
    fast paths for inference would not be taken."""
    kind = type(module)
    if kind.__module__ == "torch._dynamo.eval_frame" and kind.__name__ == "OptimizedModule":
        return True
    return issubclass(kind, _FAST) and not module.training
