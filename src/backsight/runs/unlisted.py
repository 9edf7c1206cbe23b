"""A thread that stands in none of Python's lists.

Programs join every thread that `threading.enumerate()` returns, or wait until `threading.active_count()` is one: they
would wait for a thread of ours for ever.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable


class Unlisted:
    """Runs a function in a thread of its own, which does not keep the program from ending.

    The function must not ask for `threading.current_thread()`, which would make an entry for it; and it must not raise.

    Raises:
        RuntimeError: if there is no thread to be had, as at the end of a program.
    """

    def __init__(self, target: Callable[[], None]) -> None:
        self._target = target
        self._running = _thread.allocate_lock()
        self._running.acquire()
        self._identifier = _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        try:
            self._target()
        finally:
            self._running.release()

    @property
    def alive(self) -> bool:
        return self._running.locked()

    @property
    def current(self) -> bool:
        """Whether it is the thread that asks."""
        return _thread.get_ident() == self._identifier

    def join(self) -> None:
        """Wait until it has ended."""
        with self._running:
            return
