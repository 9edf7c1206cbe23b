"""What watches a program, and the guard that keeps the observer's failures away from it."""

import os
import sys
from collections.abc import Callable
from typing import Protocol

from backsight.text import printable


class Observer(Protocol):
    """What watches a program from its first line to its end.

    A process that dies by a signal, `os._exit` or `os.exec*` is not finished: it has no moment left to do it in.
    In a child made by `os.fork` nothing is called.
    """

    def start(self) -> None:
        """Called before the program's first line; `sys.argv`, `sys.path` and `__main__` are its own by then."""

    def error(self, error: BaseException) -> None:
        """Called with an uncaught exception, its frames alive, once Python's own traceback has been printed.

        `SystemExit` is no error; but if the program exits with a failure while it handles an error, that one is.
        """

    def finish(self) -> None:
        """Called last: after the program's other threads and its `atexit` callbacks, its `__main__` still whole.

        By then Python starts no new threads (3.12 and later).
        """


class Together:
    """Several observers as one; where one fails, the others go on."""

    def __init__(self, *observers: Observer) -> None:
        self._guarded = [Guarded(observer) for observer in observers]

    def start(self) -> None:
        for each in self._guarded:
            each.start()

    def error(self, error: BaseException) -> None:
        for each in self._guarded:
            each.error(error)

    def finish(self) -> None:
        for each in self._guarded:
            each.finish()


class Guarded:
    """An observer that can neither raise into the program nor be called from a fork of it."""

    def __init__(self, observer: Observer) -> None:
        self._observer: Observer | None = observer
        self._process = os.getpid()

    def start(self) -> None:
        # An interrupt at this moment is meant for the program, which has yet to begin, so it passes.
        if observer := self._willing():
            self._call(observer.start, (Exception, SystemExit))

    def error(self, error: BaseException) -> None:
        if observer := self._willing():
            self._call(lambda: observer.error(error), BaseException)

    def finish(self) -> None:
        if observer := self._willing():
            self._call(observer.finish, BaseException)

    def _willing(self) -> Observer | None:
        return self._observer if os.getpid() == self._process else None

    def _call(self, method: Callable[[], None], held: type[BaseException] | tuple[type[BaseException], ...]) -> None:
        try:
            method()
        except held as failure:
            self._observer = None
            _warn(failure)


def _warn(failure: BaseException) -> None:
    """Say on stderr, in one line, why the program is no longer observed."""
    try:
        import traceback  # here, because a program that is observed without failures should not pay for it

        *_, last = traceback.format_exception_only(type(failure), failure)
        where = traceback.extract_tb(failure.__traceback__)[-1]
        line = f"backsight: stopped observing: {last.strip()} ({os.path.basename(where.filename)}:{where.lineno})"
        if sys.stderr is not None:  # print(file=None) would write to stdout
            print(printable(line), file=sys.stderr, flush=True)
    except Exception:
        pass  # stderr is closed or broken, and there is no other place to say so
