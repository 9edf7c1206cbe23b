"""The exact level: a mode that sees every call into PyTorch, and has it noted.

It does with each call what PyTorch would have done without it. Within a call it is switched off, so that of a function
written in Python, such as `F.cross_entropy`, the whole is seen and not its parts; a backward alone is entered, for the
hooks and the recomputations that run in it.

Source: torch/overrides.py, `TorchFunctionMode`, `redispatch_function`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, FunctionType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from backsight.tracing._torch import HANDLE, next_number, run_with
from backsight.tracing.backwards import Entry
from backsight.tracing.births import Births
from backsight.tracing.callers import called_from
from backsight.tracing.kinds import Kind, kind_of
from backsight.tracing.log import Log
from backsight.tracing.notes import Call, Notes, Written, before

_MOST_KINDS = 20_000
_kinds: dict[Any, Kind] = {}

SILENT, PLAIN, GRADIENT = Kind.SILENT, Kind.PLAIN, Kind.GRADIENT


class Functions(TorchFunctionMode):
    """The mode. Once `ended`, which a thread that still has it may not notice, it only passes calls on."""

    def __init__(self, log: Log, births: Births | None = None):
        super().__init__()
        self.ended = False
        self._log = log
        self._notes = Notes(log, births)
        self._looks = births is not None

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        # In what torch.compile traces, this line makes all of the mode vanish.
        if torch.compiler.is_compiling() or self.ended:
            return func(*args, **(kwargs or {}))
        kind = _kinds.get(func)
        if kind is SILENT or (kind is GRADIENT and args[0].is_leaf):
            return func(*args, **kwargs) if kwargs else func(*args)
        if kind is None:
            kind = _learn(func)
        notes = self._notes
        table, first = notes.table(), next_number()
        if first != table.known:
            self._guarded(notes.gap, table, first, Call(func, args, kwargs or {}, kind, first, sys._getframe(1)))
        if kind is not PLAIN or kwargs or self._looks:
            return self._noted(Call(func, args, kwargs or {}, kind, first, sys._getframe(1)), types)
        result = func(*args)
        try:
            end = next_number()
            if type(result) is not torch.Tensor and issubclass(type(result), tuple):
                notes.done(Call(func, args, {}, kind, first, sys._getframe(1)), result, [])
            elif end != first:
                notes.made(Call(func, args, {}, kind, first, sys._getframe(1)), end)
            elif type(result) is torch.Tensor and not result.requires_grad:
                notes.cut(Call(func, args, {}, kind, first, sys._getframe(1)), result)
        except Exception as failure:
            self._fail(failure)
        return result

    def _noted(self, call: Call, types: Any) -> Any:
        """Make a call that may do more than make nodes, and have it noted."""
        if call.kind is Kind.BACKWARD:
            return self._backward(call, types)
        if call.kind is GRADIENT:
            return _as_caller(call) if _warns(call) else call.function(*call.args, **call.kwargs)
        written: Written = self._guarded(before, call) or []
        result = _as_caller(call) if _warns(call) else call.function(*call.args, **call.kwargs)
        self._guarded(self._notes.done, call, result, written)
        return result

    def _backward(self, call: Call, types: Any) -> Any:
        """Run a backward with the mode on, and have it noted."""
        site: int = self._guarded(self._notes.site, call) or 0
        entry: Entry | None = self._guarded(self._begin, call, site)
        end: Callable[[], None] | None = None
        if entry is not None and self._notes.births is not None and call.args:
            end = self._guarded(self._notes.births.before_backward, call.args[0], entry.index)
        done = False
        try:
            result = run_with(self, call.function, types, call.args, call.kwargs)
            done = True
            return result
        finally:
            self._guarded(self._log.backwards.end, entry, done)
            if end is not None:
                self._guarded(end)
            self._guarded(self._made_by_backward, site)

    def _begin(self, call: Call, site: int) -> Entry | None:
        name = "grad" if call.function is torch.autograd.grad else "backward"
        return self._log.backwards.begin(name, site, call.kwargs)  # type: ignore[arg-type]  # one of two

    def _made_by_backward(self, site: int) -> None:
        """Note the nodes of a backward that can itself be differentiated."""
        table, now = self._notes.table(), next_number()
        if now != table.known and site:
            table.add(table.known, now, site)

    def _guarded(self, note: Callable[..., Any], *given: Any) -> Any:
        if self.ended:
            return None
        try:
            return note(*given)
        except Exception as failure:
            self._fail(failure)
            return None

    def _fail(self, failure: Exception) -> None:
        self.ended = True
        self._log.fail(failure)


def _learn(function: Any) -> Kind:
    kind = kind_of(function)
    try:
        if len(_kinds) < _MOST_KINDS:
            _kinds[function] = kind
    except TypeError:  # it cannot be hashed
        pass
    return kind


def _warns(call: Call) -> bool:
    """Whether a call may well give a warning: to read the `.grad` of a result, to make a tensor or number of a tensor.

    So may whatever is written in Python, such as `F.mse_loss` of two shapes.
    """
    tensor = call.args[0] if call.args else None
    if call.kind is GRADIENT and tensor is not None:
        return bool(tensor.requires_grad and not tensor.is_leaf and not tensor.retains_grad)
    if call.kind is Kind.LEAVES and tensor is not None:
        return bool(tensor.requires_grad)
    if call.kind is Kind.WRAPS:
        return issubclass(type(tensor), torch.Tensor)
    return type(call.function) is FunctionType


def _as_caller(call: Call) -> Any:
    frame: FrameType | None = call.caller
    if frame is not None and frame.f_code is HANDLE and frame.f_back is not None:
        frame = frame.f_back.f_back  # around the function itself, which has asked
    if frame is None:
        return call.function(*call.args, **call.kwargs)
    return called_from(frame, call.function, call.args, call.kwargs)
