"""Lines by `sys.settrace`, for Python 3.11 and earlier: which line of the program made which sequence numbers.

At every line, call and return in the program's code the sequence number is read: what was made since the last reading
was made by the line that was current. A trace function is per thread, so each thread has its own, with its own state.

Source: CPython 3.11, Python/sysmodule.c, `trace_trampoline`; Objects/frameobject.c, `PyFrame_FastToLocals`.
"""

from __future__ import annotations

import dis
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from backsight.naming.frames import is_function, locals_of
from backsight.tracing._torch import next_number
from backsight.tracing.backwards import CODES, NAMES
from backsight.tracing.log import Log
from backsight.tracing.program import innermost, is_programs, known

Trace = Callable[[FrameType, str, Any], Any]

_READS_LOCALS = frozenset({"locals", "vars"})
"""A tracer rewrites the dict that `locals()` returned, at every line: what a program removed from it would come back.
Lines of functions that ask for it are not traced; what they do counts as done by the line that called them."""


class LineTrace:
    """The line tracer, of the thread that starts it and of those that begin while it runs."""

    def __init__(self, log: Log):
        self._log = log
        self._running = self._failed = False
        self._mine: Trace | None = None
        self._before: Any = None
        self._locals: list[Trace] = []

    def start(self) -> str:
        """Begin; return why that is not possible, if something else is tracing."""
        if (other := sys.gettrace()) is not None:
            return f"lines are not watched: {_described(other)} has Python's one place for a tracer"
        self._running = True
        self._mine, local = self._tracer()
        if threading.gettrace() is None:
            threading.settrace(self._arrive)
        for frame in _frames(sys._getframe(1)):  # what is already running is traced when control comes back to it
            if is_programs(frame) and _may_trace(frame.f_code):
                frame.f_trace = local
        sys.settrace(self._mine)
        return ""

    def stop(self) -> str:
        """End; other threads notice it at their next call. Return what is missing, if another tracer took over."""
        lost = sys.gettrace() is not self._mine
        if not lost:
            sys.settrace(None)
        self._running = False
        if threading.gettrace() == self._arrive:
            threading.settrace(None)
        for frame in _frames(sys._getframe(1)):
            if any(frame.f_trace is local for local in self._locals):
                frame.f_trace = None
                if is_function(frame) and not lost:
                    locals_of(frame)  # empties the snapshot that tracing has left, which would keep tensors alive
        return "some lines are missing: another tracer took over" if lost and not self._failed else ""

    def _arrive(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Be the first trace function of a new thread: give it one of its own."""
        if not self._running:
            sys.settrace(None)
            return None
        trace, _ = self._tracer()
        sys.settrace(trace)
        return trace(frame, event, arg)

    def _tracer(self) -> tuple[Trace, Trace]:
        """Return the global and the local trace function of this thread. Closures: they run at every line."""
        log, table, of_line, number = self._log, self._log.threads.here(), self._log.sites.of_line, next_number
        here = innermost(sys._getframe(2))
        code, line = (here.f_code, here.f_lineno) if here else (None, 0)

        def flush() -> None:
            nonlocal code, line
            now = number()
            if now != table.known:
                if code is not None:
                    table.add(table.known, now, of_line(code, line))
                table.known = now

        def local(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal code, line
            try:
                if number() != table.known:
                    flush()
                if event == "line":
                    code, line = frame.f_code, frame.f_lineno
                elif event == "return":  # to the middle of a line
                    outer = innermost(frame.f_back)
                    code, line = (outer.f_code, outer.f_lineno) if outer else (None, 0)
            except Exception as failure:
                self._fail(failure)
            return local

        def call(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal code, line
            if not self._running:
                sys.settrace(None)
                return None
            try:
                entered = frame.f_code
                mine = known.get(entered.co_filename)
                if mine or (mine is None and is_programs(frame)):
                    if not _may_trace(entered):
                        return None
                    flush()
                    code, line = entered, frame.f_lineno
                    return local
                if entered.co_name in NAMES and entered in CODES and code is not None:
                    flush()
                    return _until_return(log, CODES[entered], of_line(code, line), frame)
            except Exception as failure:
                self._fail(failure)
            return None

        self._locals.append(local)
        return call, local

    def _fail(self, failure: Exception) -> None:
        self._running, self._failed = False, True
        sys.settrace(None)
        self._log.fail(failure)


def _until_return(log: Log, call: Any, site: int, frame: FrameType) -> Trace:
    """Note a backward, and return what traces its frame to the end."""
    entry = log.backwards.begin(call, site, frame.f_locals)
    raised = False

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal raised
        if event == "return":
            log.backwards.end(entry, done=not raised)
        elif event in ("exception", "line"):
            raised = event == "exception"
        return trace

    return trace


def _may_trace(code: CodeType) -> bool:
    return _READS_LOCALS.isdisjoint(code.co_names) or not _asks_for_locals(code)


@functools.lru_cache(maxsize=256)
def _asks_for_locals(code: CodeType) -> bool:
    """Whether the function itself uses one of these names; as an attribute, as in pytest's asserts, it is another."""
    loads = ("LOAD_GLOBAL", "LOAD_NAME")
    return any(each.argval in _READS_LOCALS and each.opname in loads for each in dis.get_instructions(code))


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _described(tracer: Any) -> str:
    """Return the name of what traces: coverage, a debugger."""
    module = getattr(tracer, "__module__", None) or type(tracer).__module__
    return str(module).partition(".")[0] or "another tool"
