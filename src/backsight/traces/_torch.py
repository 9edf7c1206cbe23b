"""Every private attribute of PyTorch that traces touch, each with what we need of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from backsight.surface import take

_FEATURE = "traces"

current_node: Callable[[], Any] = take("torch._C._current_autograd_node", _FEATURE)
"""Return the autograd node that is running its backward in this thread, or None."""

_push: Callable[[Any], None] = take("torch._C._push_on_torch_dispatch_stack", _FEATURE)
_pop: Callable[[None], Any] = take("torch._C._pop_torch_dispatch_stack", _FEATURE)
_depth: Callable[[], int] = take("torch._C._len_torch_dispatch_stack", _FEATURE)
_at: Callable[[int], Any] = take("torch._C._get_dispatch_stack_at", _FEATURE)


def put_below(mode: Any) -> None:
    """Put a mode below all others of this thread: then whoever leaves a mode of his own finds it on top.

    `TorchDispatchMode.__enter__` would put it on top, and tell `torch.compile` of it, which then compiles anew.
    """
    above = [_pop(None) for _ in range(_depth())]
    _push(mode)
    for each in reversed(above):
        _push(each)


def take_out(mode: Any) -> bool:
    """Take a mode out of the stack of this thread, wherever it is; return whether it was there."""
    place = next((place for place in range(_depth()) if _at(place) is mode), None)
    if place is None:
        return False
    above = [_pop(None) for _ in range(_depth() - place - 1)]
    _pop(None)
    for each in reversed(above):
        _push(each)
    return True


_answers: Any = take("torch._C._disabled_torch_dispatch_impl", _FEATURE)


@cache
def answers_itself(kind: type) -> bool:
    """Whether a class of tensors has a `__torch_dispatch__`, which makes an operation one on its parts."""
    for each in kind.__mro__:
        if each is torch.Tensor:
            return False
        if "__torch_dispatch__" in vars(each):
            return vars(each)["__torch_dispatch__"] is not _answers
    return False


FAKE: Any = take("torch._subclasses.fake_tensor.FakeTensor", _FEATURE, without=None)
"""Tensors without values, as DTensor makes to find out how results are sharded: their mode lies below all others."""

_raw: str = take(
    "torch._C._functions.ExpBackward0._raw_saved_result",
    _FEATURE,
    without="none of the names",
    read=lambda _: "_raw_saved_",
)
"""Prefix of the handles on what a node has saved; their `.data` runs nothing, and is None before there is anything."""


@cache
def _results(node: type) -> tuple[str, ...]:
    """Return the handles of a class of nodes on results of their own forward."""
    return tuple(each for each in dir(node) if each.startswith((f"{_raw}result", f"{_raw}output")))


def is_being_saved(tensor: torch.Tensor) -> bool:
    """Whether autograd is about to save a result for its own backward, which it detaches for that."""
    node = tensor.grad_fn
    return node is not None and any(getattr(node, each).data is None for each in _results(type(node)))
