"""Errors that do not end the program: caught by `except RuntimeError: continue`, or in a thread that they end alone."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from backsight.launch.program import tidy
from backsight.naming.roots import ours

if TYPE_CHECKING:
    from backsight.diagnosis import Finding
    from backsight.launch.forked import Explained

Kind = tuple[str, str | None]
"""What an error is: the code of its explanation, and the line that failed."""


@dataclass(frozen=True)
class Pending:
    """An error that was raised, and what there is to say of it if the program catches it."""

    kind: Kind
    message: str
    finding: Finding


class CaughtErrors:
    """Calls `tell` with the explanation of an error, once it shows that the program has caught it and goes on.

    A watch calls `raised` as a call into PyTorch raises, which is the only moment at which all frames are there; only
    the finding is kept. The first error of a kind is told, and further ones are counted.
    """

    def __init__(self, tell: Callable[[Finding], None], explained: Explained | None = None) -> None:
        self._tell = tell
        self._explained = explained
        self._pending: dict[tuple[int, int], Pending] = {}
        self._again: Counter[Kind] = Counter()
        self._told: set[Kind] = set()
        self._process = os.getpid()

    def raised(self, error: BaseException, frame: FrameType | None) -> None:
        """Note an error that passes a call into PyTorch which `frame` has made."""
        from backsight.diagnosis.explained import explained_within, known_within

        self.went_on()
        known = known_within(error, frame) if isinstance(error, Exception) and frame is not None else None
        if known is None or frame is None:
            return
        kind = known.code, known.failure.source
        if kind in self._told:
            self._again[kind] += 1
            return
        finding = explained_within(known)
        if os.getpid() == self._process:
            self._pending[_strand()] = Pending(kind, known.failure.message, finding)
        elif self._explained is not None:  # the process that started this one may raise the same error again
            self._explained.add(known.failure.message, finding)

    def went_on(self) -> None:
        """Note that this thread, or this task, runs on: what it raised before, it has caught."""
        pending = self._pending.pop(_strand(), None) if self._pending and os.getpid() == self._process else None
        if pending is not None:
            self._told.add(pending.kind)
            self._tell(pending.finding)

    def ended(self, error: BaseException) -> None:
        """Note that an error has ended a thread, or the program: it is told of as that, and so is what led to it."""
        from backsight.diagnosis.explained import messages_behind

        messages = set(messages_behind(error))
        for strand, pending in list(self._pending.items()):
            if pending.message in messages:
                del self._pending[strand]

    def finish(self) -> int:
        """Tell of what was caught last; return how many errors of a kind that was told came again."""
        findings = [self._pending.pop(strand).finding for strand in list(self._pending)]
        if self._explained is not None:
            findings += self._explained.untold()
        for finding in findings:
            if self._explained is None or not self._explained.is_told(finding):
                self._tell(finding)
        return sum(self._again.values())


def _strand() -> tuple[int, int]:
    """What runs one statement after the other: this thread; of an event loop the task that runs."""
    tasks: Any = sys.modules.get("asyncio.tasks")
    running = getattr(sys.modules.get("asyncio.events"), "_get_running_loop", lambda: None)()
    task = tasks.current_task(running) if tasks is not None and running is not None else None
    return threading.get_ident(), id(task)


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
