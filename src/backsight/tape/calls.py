"""A log of module calls: which module was running when an operation was recorded."""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from backsight.tape._torch import next_sequence_number


@dataclass(slots=True)
class Call:
    """One module call: the sequence numbers at its entry and exit (-1 while it runs), and how deep it is nested."""

    module: weakref.ref[torch.nn.Module]
    enter: int
    exit: int
    depth: int


_FEW = 2048
"""Calls that are kept whatever they are of: 0.3 MB."""


class CallLog:
    """The module calls of each thread, in order of entry.

    Bounded: those of modules that are gone, which nobody can be told the name of, go whenever there are twice as many
    as the last time; of the others the older half goes when `limit` is reached.
    """

    def __init__(self, limit: int = 200_000):
        self.limit = limit
        self._calls: dict[int, list[Call]] = {}
        self._open: dict[int, list[tuple[torch.nn.Module, Call]]] = {}
        self._begin: dict[int, int] = {}
        self._full: dict[int, int] = {}
        self._end: int | None = None

    def open(self) -> None:
        """Note that the module calls of this thread are logged from now on; those before a pause are forgotten."""
        self._calls.clear()
        self._open.clear()
        self._begin = {threading.get_ident(): next_sequence_number()}
        self._end = None

    def enter(self, module: torch.nn.Module) -> None:
        """Note that a call of `module` begins in this thread."""
        thread = threading.get_ident()
        calls, stack = self._calls.setdefault(thread, []), self._open.setdefault(thread, [])
        now = next_sequence_number()
        if calls and calls[-1].enter > now:  # the identifier of a thread that has ended went to a new one
            calls.clear()
            stack.clear()
            self._begin[thread] = now
        if not stack and len(calls) >= self._full.get(thread, min(self.limit, _FEW)):
            self._make_room(thread, calls)
        self._begin.setdefault(thread, now)
        call = Call(weakref.ref(module), now, -1, len(stack))
        calls.append(call)
        stack.append((module, call))

    def _make_room(self, thread: int, calls: list[Call]) -> None:
        living = [call for call in calls if call.module() is not None]
        if len(calls) >= self.limit and len(living) > self.limit // 2:
            del living[: len(living) - self.limit // 2]
            self._begin[thread] = living[0].enter
        calls[:] = living
        self._full[thread] = min(self.limit, max(_FEW, 2 * len(living)))

    def leave(self, module: torch.nn.Module) -> bool:
        """Note that the call of `module` ends; return whether it was the outermost one."""
        if not self.is_open(module):
            return False  # this log began in the middle of the call
        thread = threading.get_ident()
        calls, stack = self._calls.get(thread, []), self._open.get(thread, [])
        # A call that an exception ended may have missed its exit: it ended no later than the one around it.
        while stack:
            inner, call = stack.pop()
            call.exit = next_sequence_number()
            if calls[-1] is call and call.enter == call.exit:
                calls.pop()  # no node was made in it: evaluation, or a module that only hands things on
            if inner is module:
                break
        return not stack

    def is_running(self) -> bool:
        """Whether a module call is open in this thread."""
        return self.depth() > 0

    def depth(self) -> int:
        """Return how many module calls are open in this thread."""
        return len(self._open.get(threading.get_ident()) or ())

    def is_open(self, module: torch.nn.Module) -> bool:
        """Whether the begin of a call of `module` was noted in this thread, and its end not yet."""
        return any(inner is module for inner, _ in self._open.get(threading.get_ident(), ()))

    def close(self) -> None:
        """Note that nothing is logged any more: nodes made in this thread from now on are not covered."""
        self._end = next_sequence_number()

    def covering(self, oldest: int, newest: int) -> tuple[int, Sequence[Call]]:
        """Return the calls from which the nodes numbered `oldest` to `newest` may come, none if they do not cover them.

        They are those of this thread, or of the only one with any. Before them stands the number of the first node that
        they cover: where an older one was made is not known.
        """
        this = threading.get_ident()
        thread = next(iter(self._calls)) if not self._calls.get(this) and len(self._calls) == 1 else this
        calls = self._calls.get(thread, [])
        if not calls or calls[0].enter > newest or (self._end is not None and newest >= self._end):
            return 0, ()
        first = max(bisect_right(calls, oldest, key=lambda call: call.enter) - 1, 0)
        while calls[first].depth and first:  # what is running around it began earlier
            first -= 1
        return self._begin[thread], calls[first:]


_active: list[weakref.ref[CallLog]] = []


def active() -> list[CallLog]:
    """Return the logs that were announced and are still held."""
    return [log for reference in list(_active) if (log := reference()) is not None]


def announce(log: CallLog) -> None:
    """Let captures use `log`, which begins here, for as long as somebody holds it."""
    log.open()
    if all(each is not log for each in active()):
        _active.append(weakref.ref(log, _active.remove))  # see Note [No Python when something dies]
