"""Lines by `sys.settrace`, for Python 3.11 and earlier: which line of the program made which sequence numbers.

At every line, call and return in the program's code the sequence number is read: what was made since the last reading
was made by the line that was current. A trace function is per thread, so each thread has its own, with its own state.

Source: CPython 3.11, Python/sysmodule.c, `trace_trampoline`; Objects/frameobject.c, `PyFrame_FastToLocals`.
"""

from __future__ import annotations

import atexit
import dis
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

from backsight.naming.frames import is_function, locals_of
from backsight.naming.roots import ours
from backsight.tape import uncompiled
from backsight.tracing._torch import next_number
from backsight.tracing.backwards import CODES, NAMES, Entry
from backsight.tracing.debuggers import package_of
from backsight.tracing.intervals import Intervals
from backsight.tracing.log import Log
from backsight.tracing.program import innermost, is_programs, known
from backsight.tracing.sites import Sites

Trace = Callable[[FrameType, str, Any], Any]

_READS_LOCALS = frozenset({"locals", "vars"})
"""A tracer rewrites the dict that `locals()` returned, at every line: what a program removed from it would come back.
Lines of functions that ask for it are not traced; what they do counts as done by the line that called them."""


class LineTrace:
    """The line tracer, of the thread that starts it and of those that begin while it runs.

    There is one place for a tracer, so one that is started while another of ours runs has that one write into its log
    too: `logs` are all those that are written, and whoever ends last ends the tracing.
    """

    def __init__(self, log: Log):
        self.log = log
        self.logs: tuple[Log, ...] = ()
        self.running = self.interrupted = self._failed = False
        self._mine: _ThreadTrace | None = None
        self._outer: LineTrace | None = None

    def start(self) -> str:
        """Begin; return why that is not possible, if something else is tracing."""
        self.log.threads.here()
        if (other := sys.gettrace()) is not None:
            tracing = getattr(other, "__self__", None)
            if type(tracing) is _ThreadTrace and tracing.owner.running:
                self._outer = tracing.owner
                self._outer.logs = (*self._outer.logs, self.log)
                return ""
            return f"lines are not watched: {package_of(other)} already uses Python's only trace function"
        self.running, self.logs = True, (self.log,)
        self._mine = mine = _ThreadTrace(self)
        atexit.register(self._at_exit)
        if threading.gettrace() is None:
            threading.settrace(self._arrive)
        for frame in _frames(sys._getframe(1)):  # what is already running is traced when control comes back to it
            if is_programs(frame) and _may_trace(frame.f_code):
                frame.f_trace = mine.local
        sys.settrace(mine.call)
        return ""

    def stop(self) -> str:
        """End; other threads notice it at their next call. Return what is missing, if another tracer took over."""
        return (self._outer or self)._without(self.log)

    def _without(self, log: Log) -> str:
        """Write into one log no more; end with the last."""
        self.logs = tuple(each for each in self.logs if each is not log)
        mine = self._mine
        if mine is None or self.logs:
            return ""
        atexit.unregister(self._at_exit)
        lost = sys.gettrace() is not mine.call
        if not lost:
            sys.settrace(None)
        self.running = False
        if threading.gettrace() == self._arrive:
            threading.settrace(None)
        for frame in _frames(sys._getframe(1)):
            if frame.f_trace is mine.local:
                frame.f_trace = None
                if is_function(frame) and not lost:
                    _forget(frame)
        if not lost or self._failed:
            return ""
        if self.interrupted:
            return (
                "some lines are missing: a signal handler raised an error inside the trace function, and Python "
                "then removes it"
            )
        return "some lines are missing: another tracer took over"

    def _at_exit(self) -> None:
        """End, as the program does: a tracer that is still there is called while Python takes its modules apart."""
        self.running, self._failed = False, True
        if self._mine is not None and sys.gettrace() is self._mine.call:
            sys.settrace(None)

    @uncompiled
    def _arrive(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Be the first trace function of a new thread: give it one of its own."""
        if not self.running:
            sys.settrace(None)
            return None
        trace = _ThreadTrace(self).call
        sys.settrace(trace)
        return trace(frame, event, arg)

    def fail(self, failure: BaseException) -> None:
        """End in this thread and all others, because of a failure of ours."""
        self.running, self._failed = False, True
        sys.settrace(None)
        for log in self.logs:
            log.fail(failure)

    def bear(self, failure: BaseException) -> None:
        """Bear what was raised while a line was noted, if it is ours; else it goes on to the program."""
        self.interrupted = True
        self.fail(ours(failure))


class _ThreadTrace:
    """The trace functions of one thread: `call` for all that is called, `local` for the program's frames."""

    __slots__ = ("_code", "_known", "_line", "_logs", "_tables", "call", "local", "owner")

    def __init__(self, owner: LineTrace):
        self.owner = owner
        self._logs: tuple[Log, ...] = ()
        self._tables: list[tuple[Intervals, Sites]] = []
        self._known = -1
        self._code: CodeType | None = None
        self._line = 0
        self._go_to(innermost(sys._getframe(2)))
        # Bound once: a bound method is a new object each time, and frames are asked whether they have this one.
        self.call: Trace = self._call
        self.local: Trace = self._local

    def _go_to(self, frame: FrameType | None) -> None:
        self._code, self._line = (frame.f_code, frame.f_lineno) if frame is not None else (None, 0)

    def _flush(self) -> None:
        """Give what was made since the last time to the line that was current."""
        if self._logs is not self.owner.logs:
            self._logs = self.owner.logs
            self._tables = [(log.threads.here(), log.sites) for log in self._logs]
        self._known = now = next_number()
        for table, sites in self._tables:
            if now != table.known:
                if self._code is not None:
                    table.add(table.known, now, sites.of_line(self._code, self._line))
                table.known = now

    @uncompiled
    def _local(self, frame: FrameType, event: str, arg: Any) -> Any:
        try:
            if next_number() != self._known:
                self._flush()
            if event == "line":
                self._code, self._line = frame.f_code, frame.f_lineno
            elif event == "return":  # to the middle of a line
                self._go_to(innermost(frame.f_back))
        except BaseException as failure:
            self.owner.bear(failure)
        return self.local

    @uncompiled
    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not self.owner.running:
            sys.settrace(None)
            return None
        try:
            code = frame.f_code
            mine = known.get(code.co_filename)
            if mine or (mine is None and is_programs(frame)):
                if not _may_trace(code):
                    return None
                self._flush()
                self._code, self._line = code, frame.f_lineno
                return self.local
            if code.co_name in NAMES and code in CODES and self._code is not None:
                self._flush()
                here = self._code, self._line
                return _until_return(
                    [
                        (log, log.backwards.begin(CODES[code], log.sites.of_line(*here), frame.f_locals))
                        for log in self._logs
                    ]
                )
        except BaseException as failure:
            self.owner.bear(failure)
        return None


def _until_return(entries: Sequence[tuple[Log, Entry | None]]) -> Trace:
    """Return what traces the frame of a backward, noted in these logs, to the end."""
    raised = False

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal raised
        if event == "return":
            for log, entry in entries:
                log.backwards.end(entry, done=not raised)
        elif event in ("exception", "line"):
            raised = event == "exception"
        return trace

    return trace


def _forget(frame: FrameType) -> None:
    """Empty the snapshot of its variables that tracing has left, which would keep tensors alive."""
    if sys.version_info >= (3, 11):
        locals_of(frame)
    else:  # where that one cannot be told from the program's own; but functions that ask for theirs are not traced
        frame.f_locals.clear()


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
