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
from torch.compiler import is_compiling
from torch.overrides import TorchFunctionMode

from backsight.naming.roots import is_user, ours
from backsight.tape import no_torch_dispatch, no_torch_function, uncompiled
from backsight.tracing._torch import HANDLE, PLAIN_TYPES, dispatch_modes, function_modes, next_number, run_with
from backsight.tracing.asking import who_asked
from backsight.tracing.backwards import Entry
from backsight.tracing.births import Births
from backsight.tracing.callers import callers, passing_code, passing_for
from backsight.tracing.debuggers import is_debugged
from backsight.tracing.draws import DRAWS
from backsight.tracing.kinds import BY_IDENTITY, Kind, known, learn, name_of
from backsight.tracing.log import Log
from backsight.tracing.notes import Call, Notes, Written, before, may_write
from backsight.tracing.peculiar import LOOKS
from backsight.tracing.program import is_programs
from backsight.tracing.ranges import CARES, USES
from backsight.tracing.sites import Place
from backsight.tracing.spots import Closer

SILENT, PLAIN, GRADIENT = Kind.SILENT, Kind.PLAIN, Kind.GRADIENT

_MOST_PLACES = 10_000

_NONE: Mapping[str, Any] = {}
"""No named arguments: a dict, with which Python makes a call four times as fast as with a mapping that nobody can
change."""


class Functions(TorchFunctionMode):
    """The mode. Once `ended`, which a thread that still has it may not notice, it only passes calls on."""

    def __init__(self, log: Log, births: Births | None = None):
        super().__init__()
        self.ended = False
        self._running = 0
        self._log = log
        self._notes = Notes(log, births)
        self._looks = births is not None
        self._lines = log.spots.lines
        self._axes, self._meetings, self._draws = log.axes, log.meetings, log.draws
        self._captures, self._ranges = log.captures, log.ranges
        self._places = log.sites.places

    @uncompiled
    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        # In what torch.compile traces, this line makes all of the mode vanish.
        if is_compiling():
            return func(*args, **(kwargs or {}))
        frame = sys._getframe(1)
        if self.ended or (self._log.budget is not None and not self._may_spend()):
            return self._as_caller(frame, func, args, kwargs)
        place = self._places.get((id(frame.f_code), frame.f_lasti))
        if place is not None and place.function is func and not (kwargs or types or is_debugged()):
            table, first = self._notes.here.table, next_number()
            if table is not None and first == table.known and not (place.marks and any(place.marks)):
                result = FunctionType(place.passing, frame.f_globals)(func, args, _NONE)
                try:
                    if (end := next_number()) != first:
                        table.add(first, end, place.site)
                    else:
                        self._note(func, args, result, PLAIN, first, frame)
                except BaseException as failure:
                    self._fail(failure)
                return result
        lines = self._lines.get(frame.f_code.co_filename)
        spot = lines is None or (lines and self._is_spot(lines.get(frame.f_lineno), func))
        if spot:
            self._lightly(self._log.spots.note, func, args, kwargs or {}, frame)
        try:
            kind = known.get(func) if type(func) in BY_IDENTITY else None
            if kind is None:
                func = who_asked(func, frame)
                kind = learn(func)
            first, table = next_number(), self._notes.table()
            simple = kind is PLAIN and not kwargs and not self._looks and first == table.known
        except BaseException as failure:
            self._fail(failure)
            return self._as_caller(frame, func, args, kwargs)
        if kind is SILENT or kind is GRADIENT:
            return self._as_caller(frame, func, args, kwargs)
        if not simple or (types and not PLAIN_TYPES.issuperset(types)):
            return self._thoroughly(Call(func, args, kwargs or {}, kind, first, frame), types)
        result = self._as_caller(frame, func, args, kwargs)
        try:
            site = self._note(func, args, result, kind, first, frame)
            if site and not spot and not self._axes.is_open and self._meetings.is_settled(site):
                self._settle(site, func, frame)
        except BaseException as failure:
            self._fail(failure)
        return result

    def _is_spot(self, spot: Closer | None, func: Any) -> bool:
        """Whether a call may be the one that is looked at closer at its line, by its name."""
        return spot is not None and (type(func) not in BY_IDENTITY or func.__name__ == spot.method)

    def _note(self, func: Any, args: Sequence[Any], result: Any, kind: Kind, first: int, frame: FrameType) -> int:
        """Note what a call did that has only made nodes; return the site at which it made some."""
        end, name, site = next_number(), name_of(func), 0
        if self._running:
            self._lightly(self._log.inside.note, frame, result)
        if end != first:
            site = self._notes.made(name, args, _NONE, result, first, end, frame)
        elif type(result) is torch.Tensor:
            if not result.requires_grad:
                self._notes.cut(Call(func, args, _NONE, kind, first, frame), result)
        elif issubclass(type(result), tuple):
            self._notes.done(Call(func, args, _NONE, kind, first, frame), result, [])
        if (look := LOOKS.get(name)) is not None and self._log.peculiarities.wants(look, args):
            self._lightly(self._log.peculiarities.note, look, name, args, _NONE, result, frame)
        if self._axes.is_open:
            if function_modes():
                with no_torch_function():
                    self._axes.note(name, args, _NONE, result, frame)
            else:
                self._axes.note(name, args, _NONE, result, frame)
        if self._draws.is_open and name in DRAWS:
            self._guarded(self._draws.note, name, _NONE, result, frame)
        if name in CARES:
            self._guarded(self._ranges.note, name, args, _NONE, result, frame)
        if self._captures.is_open:
            self._guarded(self._captures.look, frame)
        return site

    def _settle(self, site: int, func: Any, frame: FrameType) -> None:
        """Note only the nodes from now on of the calls at a site of the program."""
        name = name_of(func)
        marks = None if self._draws.is_open and name in DRAWS else self._log.peculiarities.marks_of(name)
        if marks is not None and name in USES:
            marks = (*marks, self._ranges.moved)
        if marks is not None and is_programs(frame) and len(self._places) < _MOST_PLACES:
            place = Place(frame.f_code, func, site, passing_code(frame), marks)
            self._places[id(frame.f_code), frame.f_lasti] = place

    def _thoroughly(self, call: Call, types: Any) -> Any:
        """Make a call that may do more than make nodes, and have it noted; nobody else sees us look."""
        if call.first != self._notes.table().known:
            self._guarded(self._account, call)
        if self._log.errors is None:
            return self._noted(call, types)
        try:
            return self._noted(call, types)
        except Exception as error:
            if not self._guarded(_has_passed, error) and (
                call.kind is Kind.BACKWARD or (call.caller and is_user(call.caller))
            ):
                self._guarded(self._log.errors.raised, error, call.caller)
            raise

    def _noted(self, call: Call, types: Any) -> Any:
        if call.kind is Kind.BACKWARD:
            return self._backward(call, types)
        lightly = self._lightly if not types or PLAIN_TYPES.issuperset(types) else self._guarded
        try:
            writes = may_write(call)
        except BaseException as failure:
            self._fail(failure)
            writes = False
        written: Written = (lightly(before, call) or []) if writes else []
        result = self._as_caller(call.caller, call.function, call.args, call.kwargs)
        lightly(self._tell, call, result, written)
        return result

    def _tell(self, call: Call, result: Any, written: Written) -> None:
        """Note what a call did."""
        self._notes.done(call, result, written)
        if self._running and call.caller is not None:
            self._log.inside.note(call.caller, result)
        look = LOOKS.get(name := name_of(call.function)) if call.caller is not None else None
        if look is not None and call.caller is not None and self._log.peculiarities.wants(look, call.args):
            self._log.peculiarities.note(look, name, call.args, call.kwargs, result, call.caller)
        if self._axes.is_open and call.caller is not None:
            self._axes.note(name_of(call.function), call.args, call.kwargs, result, call.caller)
        if self._draws.is_open and name in DRAWS and call.caller is not None:
            self._guarded(self._draws.note, name, call.kwargs, result, call.caller)
        if name in CARES and call.caller is not None:
            self._guarded(self._ranges.note, name, call.args, call.kwargs, result, call.caller)
        if self._captures.is_open:
            self._captures.look(call.caller)

    def _account(self, call: Call) -> None:
        """Account for the nodes that no call made."""
        self._notes.gap(self._notes.table(), call.first, call)

    def _may_spend(self) -> bool:
        """Take a call off the budget; the mode does nothing more once that is spent, until somebody takes it away."""
        self._log.budget -= 1  # type: ignore[operator]  # there is one
        self.ended = self._log.budget <= 0
        return not self.ended

    def _backward(self, call: Call, types: Any) -> Any:
        """Run a backward with the mode on, and have it noted."""
        if self._log.errors is not None:
            self._guarded(self._log.errors.went_on)
        site: int = self._guarded(self._notes.site, call) or 0
        entry: Entry | None = self._guarded(self._begin, call, site)
        ends: list[Callable[[], None] | None] = []
        if entry is not None and self._notes.births is not None and call.args:
            ends.append(self._guarded(self._notes.births.before_backward, call.args[0], entry.index))
        if entry is not None and self._log.stops.wanted and call.function is not torch.autograd.grad and call.args:
            ends.append(self._guarded(self._log.stops.before_backward, call.args[0]))
        begun = done = False
        outcome: list[Any] = []
        self._running += 1

        def run(*given: Any) -> Any:
            nonlocal begun
            begun = True
            outcome.append(self._as_caller(call.caller, *given))
            return outcome[0]

        try:
            try:
                result = run_with(self, call.function, types, call.args, call.kwargs, run)
            except BaseException as failure:
                if begun and not outcome:
                    raise
                self._fail(failure)  # of ours, before the call or after it
                result = outcome[0] if outcome else call.function(*call.args, **call.kwargs)
            done = True
            if call.function is torch.autograd.grad:
                self._guarded(self._notes.differentiated, call, result)
            return result
        finally:
            self._running -= 1
            self._guarded(self._log.backwards.end, entry, done)
            for end in ends:
                if end is not None:
                    self._guarded(end)
            self._guarded(self._made_by_backward, site)

    def _begin(self, call: Call, site: int) -> Entry | None:
        name = "grad" if call.function is torch.autograd.grad else "backward"
        if not self._running:
            self._log.inside.begin()
        entry = self._log.backwards.begin(name, site, call.kwargs)  # type: ignore[arg-type]  # one of two
        if entry is not None and name == "backward":
            if self._draws.is_open:
                self._draws.passed()
            self._captures.begun(call.args[0] if call.args else None, site, call.caller)
        return entry

    def _made_by_backward(self, site: int) -> None:
        """Note the nodes of a backward that can itself be differentiated."""
        table, now = self._notes.table(), next_number()
        if now != table.known and site:
            table.add(table.known, now, site)

    def _as_caller(self, frame: FrameType | None, function: Any, args: Any, kwargs: Any) -> Any:
        """Make a call as if the program itself made it."""
        kwargs = kwargs or {}
        try:
            passing = _passing(frame, function)
        except BaseException as failure:
            self._fail(failure)
            passing = None
        if passing is None:
            return function(*args, **kwargs)
        if not isinstance(passing, list):
            return passing(function, args, kwargs)
        for each in passing:
            function, args, kwargs = each, (function, args, kwargs), {}
        return function(*args, **kwargs)

    def _guarded(self, note: Callable[..., Any], *given: Any) -> Any:
        if self.ended:
            return None
        try:
            with no_torch_function(), no_torch_dispatch():
                return note(*given)
        except BaseException as failure:
            self._fail(failure)
            return None

    def _lightly(self, note: Callable[..., Any], *given: Any) -> Any:
        """Do the same with what has to do with plain tensors alone: modes are kept away where there are any."""
        if self._looks or dispatch_modes():
            return self._guarded(note, *given)
        if self.ended:
            return None
        try:
            with no_torch_function():
                return note(*given)
        except BaseException as failure:
            self._fail(failure)
            return None

    def _fail(self, failure: BaseException) -> None:
        """Bear a failure of ours: it is told, and nothing more is noted."""
        failure = ours(failure)
        self.ended = True
        self._log.fail(failure)


def _has_passed(error: BaseException) -> bool:
    """Whether an error that is being handled has passed a call within this one: `Tensor.backward` makes another."""
    trace = error.__traceback__.tb_next if error.__traceback__ else None
    while trace is not None:
        if trace.tb_frame.f_code is Functions._thoroughly.__code__:
            return True
        trace = trace.tb_next
    return False


_Pass = Callable[[Any, Any, Any], Any]


def _passing(frame: FrameType | None, function: Any) -> _Pass | list[_Pass] | None:
    """Return what to make a call in, innermost first: frames that pass for those of the program, to which a warning is
    then attributed; nothing under a debugger, which would stop in them."""
    if is_debugged():
        return None
    if frame is not None and frame.f_code is HANDLE and frame.f_back is not None:
        frame = frame.f_back.f_back  # around the function itself, which has asked
    if frame is None:
        return None
    if type(function) is FunctionType:  # it may attribute a warning to who has called its caller
        return [passing_for(each) for each in callers(frame)]
    return passing_for(frame)
