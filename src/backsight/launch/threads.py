"""Errors that end a thread: they end neither the program nor its status, and are easily overlooked."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from backsight.launch.program import tidy
from backsight.naming.roots import ours

Tell = Callable[[BaseException, str], None]


class ThreadErrors:
    """Calls `tell` with the error that ended a thread and the thread's name, once Python has printed its traceback.

    Takes the place of `threading.excepthook`, Python's own way to learn of these, and calls the one that was there.
    A program that sets a hook of its own later has its way.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._process = os.getpid()
        self._before = threading.excepthook
        self._hook = self._ended  # one object: a bound method is a new one each time
        threading.excepthook = self._hook

    def stop(self) -> None:
        """Put the earlier hook back, unless another has taken its place."""
        if threading.excepthook is self._hook:
            threading.excepthook = self._before

    def _ended(self, args: threading.ExceptHookArgs, /) -> None:
        error = args.exc_value
        if error is not None:
            tidy(error)
        self._before(args)
        if error is None or isinstance(error, (SystemExit, KeyboardInterrupt)) or os.getpid() != self._process:
            return
        try:
            self._tell(error, args.thread.name if args.thread is not None else "")
        except BaseException as failure:  # the thread has ended, and the program goes on as without us
            ours(failure)
