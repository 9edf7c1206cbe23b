"""The exact level: a mode that sees every call into PyTorch, and has it noted.

It does with each call what PyTorch would have done without it. Within a call it is switched off, so that of a function
written in Python, such as `F.cross_entropy`, the whole is seen and not its parts; a backward alone is entered, for the
hooks and the recomputations that run in it.

Source: torch/overrides.py, `TorchFunctionMode`, `redispatch_function`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from backsight.naming.roots import ours
from backsight.tape import no_torch_dispatch, no_torch_function
from backsight.tracing._torch import HANDLE, next_number, run_with
from backsight.tracing.backwards import Entry
from backsight.tracing.births import Births
from backsight.tracing.callers import called_from
from backsight.tracing.kinds import BY_IDENTITY, Kind, known, learn
from backsight.tracing.log import Log
from backsight.tracing.notes import Call, Notes, Written, before

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
        call: Call | None = None
        written: Written = []
        try:
            kind = known.get(func) if type(func) in BY_IDENTITY else None
            if kind is None:
                kind = learn(func)
            call = Call(func, args, kwargs or {}, kind, next_number(), sys._getframe(1))
            if kind is not SILENT:
                with no_torch_function(), no_torch_dispatch():
                    written = self._begun(call)
        except BaseException as failure:
            self._fail(failure)
        if call is None:
            return func(*args, **(kwargs or {}))
        if kind is Kind.BACKWARD:
            return self._backward(call, types)
        result = _as_caller(call)
        try:
            if not (kind is SILENT or kind is GRADIENT or self.ended):
                with no_torch_function(), no_torch_dispatch():
                    self._ended(call, result, written)
        except BaseException as failure:
            self._fail(failure)
        return result

    def _begun(self, call: Call) -> Written:
        """Account for the nodes that no call made, and return what this one may change in place."""
        table = self._notes.table()
        if call.first != table.known:
            self._notes.gap(table, call.first, call)
        return before(call) if call.kind is not PLAIN or call.kwargs else []

    def _ended(self, call: Call, result: Any, written: Written) -> None:
        """Note what a call has done: of most, the nodes that it made are all."""
        if call.kind is not PLAIN or call.kwargs or self._looks or issubclass(type(result), tuple):
            self._notes.done(call, result, written)
        elif (end := next_number()) != call.first:
            self._notes.made(call, end)
        elif type(result) is torch.Tensor and not result.requires_grad:
            self._notes.cut(call, result)

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
            with no_torch_function(), no_torch_dispatch():
                return note(*given)
        except BaseException as failure:
            self._fail(failure)
            return None

    def _fail(self, failure: BaseException) -> None:
        """Bear a failure of ours: it is told, and nothing more is noted."""
        failure = ours(failure)
        self.ended = True
        self._log.fail(failure)


def _as_caller(call: Call) -> Any:
    """Make a call in a frame that passes for that of the program, to which a warning is then attributed."""
    frame: FrameType | None = call.caller
    if frame is not None and frame.f_code is HANDLE and frame.f_back is not None:
        frame = frame.f_back.f_back  # around the function itself, which has asked
    if frame is None:
        return call.function(*call.args, **call.kwargs)
    return called_from(frame, call.function, call.args, call.kwargs)
