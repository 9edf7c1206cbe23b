"""A tool of `sys.monitoring`: taken if one is free, given back whole."""

from __future__ import annotations

import atexit
import sys
import weakref
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from backsight.naming.roots import ours
from backsight.tape import uncompiled

_FREE_FOR_ALL = (3, 4)
"""The numbers that PEP 669 reserves for nobody: 0 is for debuggers, 1 for coverage, 2 for profilers."""


class Tool:
    """One tool: its callbacks, and the code objects that it instruments.

    A callback that raises ends it. So does the end of the program: Python takes our modules apart then.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._events: list[int] = []
        self._codes: dict[int, weakref.ref[CodeType]] = {}

    @property
    def never_again(self) -> Any:
        """What a callback returns to be called no more at this place."""
        return _monitoring().DISABLE

    def take(self, callbacks: Mapping[int, Callable[..., Any]], fail: Callable[[BaseException], None]) -> bool:
        """Take a free number and register `callbacks` by event; False if there is none."""
        monitoring = _monitoring()
        free = (number for number in _FREE_FOR_ALL if monitoring.get_tool(number) is None)
        self._number = next(free, None)
        if self._number is None:
            return False
        monitoring.use_tool_id(self._number, "backsight")
        atexit.register(self.give_back)
        monitoring.restart_events()  # what an earlier watch, with this number, wanted no more
        for event, callback in callbacks.items():
            monitoring.register_callback(self._number, event, self._guarded(callback, fail))
            self._events.append(event)
        return True

    def watch(self, code: CodeType, events: int) -> None:
        """Instrument one code object."""
        if self._number is not None:
            _monitoring().set_local_events(self._number, code, events)
            self._codes[id(code)] = weakref.ref(code)

    def watch_all(self, events: int) -> None:
        """Instrument everything that runs."""
        if self._number is not None:
            _monitoring().set_events(self._number, events)

    def give_back(self) -> None:
        """Take every instrument away again."""
        number, self._number = self._number, None
        if number is None:
            return
        atexit.unregister(self.give_back)
        monitoring = _monitoring()
        monitoring.set_events(number, 0)
        for code in [ref() for ref in self._codes.values()]:
            if code is not None:
                monitoring.set_local_events(number, code, 0)
        for event in self._events:
            monitoring.register_callback(number, event, None)
        monitoring.free_tool_id(number)
        self._codes.clear()
        self._events.clear()

    def _guarded(self, callback: Callable[..., Any], fail: Callable[[BaseException], None]) -> Callable[..., Any]:
        @uncompiled
        def guarded(*given: Any) -> Any:
            try:
                return callback(*given)
            except BaseException as failure:
                failure = ours(failure)
                self.give_back()
                fail(failure)
                return None

        return guarded


def _monitoring() -> Any:
    return sys.monitoring  # type: ignore[attr-defined,unused-ignore]  # Python 3.12
