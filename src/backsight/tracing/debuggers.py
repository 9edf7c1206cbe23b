"""Whether a debugger traces this thread. Calls are then made plainly: a frame that passes for the program's would be
stopped in, since a breakpoint is a file and a line, and has none of the program's variables.

Tracers of coverage stop nowhere, and neither do our own: with them, warnings are still told of the program's lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_STOP_NOWHERE = frozenset({"backsight", "coverage"})

tracer: Callable[[], Any] = sys.gettrace
"""Return what traces this thread. Asked at every call, so taken once."""


def is_debugger(traces: Any) -> bool:
    """Whether what traces a thread may be a debugger."""
    return package_of(traces) not in _STOP_NOWHERE


def package_of(traces: Any) -> str:
    """Return the package of what traces: a function, a method, or an object of a compiled class."""
    module = getattr(traces, "__module__", None) or type(traces).__module__
    return str(module).partition(".")[0] or "another tool"


def _none(number: int) -> None:
    return None


if sys.version_info >= (3, 12):
    monitor: Callable[[int], Any] = sys.monitoring.get_tool
    """Return the tool that has a number. From Python 3.12 on a debugger may be one, and then traces nothing."""
    DEBUGGER: int = sys.monitoring.DEBUGGER_ID
    MONITORED = True
else:
    monitor, DEBUGGER, MONITORED = _none, 0, False


def is_debugged() -> bool:
    """Whether a debugger may trace this thread."""
    traces = tracer()
    return (traces is not None and is_debugger(traces)) or (MONITORED and monitor(DEBUGGER) is not None)
