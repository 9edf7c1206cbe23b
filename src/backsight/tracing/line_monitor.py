"""Lines by `sys.monitoring`, for Python 3.12 and later: which line of the program made which sequence numbers.

Only the program's code is instrumented; that of libraries runs at full speed. Debuggers, coverage and profilers have
tools of their own. (On 3.12 and 3.13 `sys.settrace` would also be seen by every frame of a library.)

Source: PEP 669; CPython 3.12, Python/instrumentation.c.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from backsight.tracing._torch import next_number
from backsight.tracing.backwards import CODES, NAMES, Entry
from backsight.tracing.intervals import Intervals
from backsight.tracing.log import Log
from backsight.tracing.program import innermost, is_programs
from backsight.tracing.tool import Tool


class _Thread:
    """The line that is current in a thread, and the backwards that run in it."""

    __slots__ = ("backwards", "code", "line", "table")

    def __init__(self, table: Intervals) -> None:
        self.table = table
        self.code: CodeType | None = None
        self.line = 0
        self.backwards: list[Entry | None] = []


class _Here(threading.local):
    thread: _Thread | None = None


class LineMonitor:
    """The line tracer of all threads."""

    def __init__(self, log: Log):
        self._log = log
        self._here = _Here()
        self._tool = Tool()

    def start(self) -> str:
        """Begin; return why that is not possible, if all tools are taken."""
        events = sys.monitoring.events  # type: ignore[attr-defined,unused-ignore]  # Python 3.12
        self._of_program = events.LINE | events.PY_RETURN | events.PY_YIELD | events.PY_RESUME
        self._of_backward = events.PY_START | events.PY_RETURN
        callbacks: dict[int, Callable[..., Any]] = {
            events.PY_START: self._started,
            events.LINE: self._enter,
            events.PY_RESUME: self._resumed,
            events.PY_RETURN: self._left,
            events.PY_YIELD: self._left,
            events.PY_UNWIND: self._unwound,
        }
        if not self._tool.take(callbacks, self._log.fail):
            return "lines are not watched: other tools use all of Python's monitoring tool IDs"
        for frame in list(sys._current_frames().values()):
            self._instrument(frame)
        for code in CODES:
            self._tool.watch(code, self._of_backward)
        here = innermost(sys._getframe(1))
        if here is not None:
            self._enter(here.f_code, here.f_lineno)
        self._tool.watch_all(events.PY_START | events.PY_UNWIND)
        return ""

    def stop(self) -> str:
        """End, in all threads."""
        self._tool.give_back()
        return ""

    def _instrument(self, frame: FrameType | None) -> None:
        while frame is not None:
            if is_programs(frame):
                self._tool.watch(frame.f_code, self._of_program)
            frame = frame.f_back

    def _thread(self) -> _Thread:
        found = self._here.thread
        if found is None:
            found = self._here.thread = _Thread(self._log.threads.here())
        return found

    def _enter(self, code: CodeType | None, line: int) -> None:
        """Account for what was made so far, and go on at another line."""
        here = self._here.thread or self._thread()
        now = next_number()
        table = here.table
        if now != table.known:
            if here.code is not None:
                table.add(table.known, now, self._log.sites.of_line(here.code, here.line))
            table.known = now
        here.code, here.line = code, line

    def _started(self, code: CodeType, offset: int) -> Any:
        if code.co_name in NAMES and code in CODES:
            here = self._thread()
            self._enter(here.code, here.line)
            site = self._log.sites.of_line(here.code, here.line) if here.code is not None else 0
            frame = sys._getframe(2)
            here.backwards.append(self._log.backwards.begin(CODES[code], site, frame.f_locals))
            return None
        frame = sys._getframe(2)
        if is_programs(frame):
            self._tool.watch(code, self._of_program)
            self._enter(code, frame.f_lineno)
        return self._tool.never_again

    def _resumed(self, code: CodeType, offset: int) -> None:
        self._enter(code, sys._getframe(2).f_lineno)

    def _left(self, code: CodeType, offset: int, value: Any) -> None:
        if code.co_name in NAMES and code in CODES:
            self._end_backward(done=True)
            return
        outer = innermost(sys._getframe(2).f_back)
        self._enter(*(outer.f_code, outer.f_lineno) if outer else (None, 0))

    def _unwound(self, code: CodeType, offset: int, error: BaseException) -> None:
        frame = sys._getframe(2)
        if code.co_name in NAMES and code in CODES:
            self._end_backward(done=False)
        elif is_programs(frame):
            outer = innermost(frame.f_back)
            self._enter(*(outer.f_code, outer.f_lineno) if outer else (None, 0))

    def _end_backward(self, done: bool) -> None:
        here = self._thread()
        if here.backwards:
            self._log.backwards.end(here.backwards.pop(), done)
