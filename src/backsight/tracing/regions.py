"""Calls that no mode sees, told by `sys.monitoring` on their code alone, for Python 3.12 and later.

Compiled functions, so that the mode is off within them: what was compiled without a mode would be compiled anew with
one. And the `forward` of custom Functions, whose node belongs to the line that applied it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Protocol

from backsight.tracing._torch import COMPILE, NEW_FUNCTION, compiled_wrapper, next_number
from backsight.tracing.custom import account, forwards, functions
from backsight.tracing.log import Log
from backsight.tracing.tool import Tool


class Switch(Protocol):
    """What takes the mode off in this thread, and puts it on again."""

    def off(self, token: object) -> None:
        """Take it off, unless it is off already."""

    def on(self, token: object, name: str) -> None:
        """Put it on again, if this token took it off."""


class Regions:
    """Takes the mode off within compiled functions, and notes the nodes of custom ones."""

    def __init__(self, log: Log, switch: Switch):
        self._log, self._switch = log, switch
        self._tool = Tool()
        self._events: Any = None
        self._wrapper: CodeType | None = None

    def start(self) -> str:
        """Begin; without a free tool, nothing is noted of these calls."""
        events = self._events = sys.monitoring.events  # type: ignore[attr-defined,unused-ignore]  # Python 3.12
        callbacks: dict[int, Callable[..., Any]] = {
            events.PY_START: self._started,
            events.PY_RETURN: self._returned,
            events.PY_UNWIND: self._left,
        }
        if not self._tool.take(callbacks, self._log.fail):
            return "functions may be compiled once more: other tools use all of Python's monitoring tool IDs"
        for function in functions():
            self._watch(function)
        if NEW_FUNCTION is not None:
            self._tool.watch(NEW_FUNCTION, events.PY_RETURN)
        if COMPILE is not None:
            self._tool.watch(COMPILE, events.PY_RETURN)
        self._tool.watch_all(events.PY_UNWIND)
        self._find()
        return ""

    def stop(self) -> str:
        """End."""
        self._tool.give_back()
        return ""

    def _find(self) -> None:
        """Look for the code around compiled functions, which is there once the compiler has been imported."""
        self._wrapper = self._wrapper or compiled_wrapper()
        if self._wrapper is not None:
            self._tool.watch(self._wrapper, self._events.PY_START | self._events.PY_RETURN)

    def _watch(self, function: type) -> None:
        for code in forwards(function):
            self._tool.watch(code, self._events.PY_START)

    def _started(self, code: CodeType, offset: int) -> None:
        if code is self._wrapper:
            self._switch.off(_frame_of(code))
        else:
            self._applied(_frame_of(code))

    def _returned(self, code: CodeType, offset: int, value: Any) -> None:
        if code is COMPILE:
            self._find()
        elif code is NEW_FUNCTION:
            self._watch(_frame_of(code).f_locals["cls"])
        else:
            self._left(code, offset, value)

    def _left(self, code: CodeType, offset: int, value: Any) -> None:
        if code is self._wrapper:
            self._switch.on(_frame_of(code), "compiled")

    def _applied(self, frame: FrameType) -> None:
        """Note the node of a Function whose forward begins, which may call nothing that a mode sees."""
        table, now = self._log.threads.here(), next_number()
        if now != table.known:
            account(table, self._log.sites, now, frame, returns_its_input=False)


def _frame_of(code: CodeType) -> FrameType:
    """Return the innermost frame that runs `code`."""
    frame = sys._getframe(1)
    while frame.f_code is not code and frame.f_back is not None:
        frame = frame.f_back
    return frame
