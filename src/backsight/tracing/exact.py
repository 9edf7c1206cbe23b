"""The exact level, in every thread: where its mode is on, and where it has to be off."""

from __future__ import annotations

import sys
import threading
import weakref
from types import FrameType
from typing import Any

import torch

from backsight.snapshot import groups
from backsight.tape import uncompiled
from backsight.tracing._torch import has_compiled, must_not_see_a_mode, next_number, put, remove
from backsight.tracing.births import Births
from backsight.tracing.functions import Functions
from backsight.tracing.log import Log
from backsight.tracing.program import innermost


class _Here(threading.local):
    """Within which calls the mode is off in a thread, outermost first."""

    def __init__(self) -> None:
        self.off: list[object] = []
        self.end: _End | None = None


class _End:
    """Takes the mode off when a thread ends, which is when Python lets go of what is local to the thread.

    PyTorch would let go of it later, when the thread has no Python any more: if the program ends in that moment, the
    thread waits for an interpreter that is gone, and the process aborts.
    """

    def __init__(self, mode: Functions):
        self._mode = mode

    def __del__(self) -> None:
        remove(self._mode)


class Exact:
    """Puts the mode on in this thread and in those that it starts, and takes it off where it would change something."""

    def __init__(self, log: Log, births: Births | None):
        self._log = log
        self._mode = Functions(log, births)
        self._here = _Here()
        self._home: weakref.ref[_End] | None = None
        """Of the thread that has begun to watch, unless it is the main one. When it ends, as one does that has imported
        PyTorch for the program, the main thread takes over."""
        self._regions: Any = None
        self._resting = False
        self._began = 0, ""
        """The thread that has begun to watch, and its name."""

    def start(self) -> str:
        """Begin."""
        self._meet()
        self._began = threading.get_ident(), threading.current_thread().name
        if self._here.end is not None:
            self._home = weakref.ref(self._here.end)
        if threading.gettrace() is None:
            threading.settrace(self._arrive)
        if sys.version_info >= (3, 12):
            from backsight.tracing.regions import Regions

            self._regions = Regions(self._log, self)
            return self._regions.start()
        return ""

    def stop(self) -> str:
        """End: the mode is taken off in this thread, and does nothing more in others."""
        if threading.gettrace() == self._arrive:
            threading.settrace(None)
        remove(self._mode)
        self._mode.ended = True
        return self._regions.stop() if self._regions is not None else ""

    def let_go(self) -> str:
        """Take off in this thread what was stopped in another; return what is to be said if it stays in a third."""
        remove(self._mode)
        return self.out_of_reach()

    def out_of_reach(self) -> str:
        """Return in which thread `stop` leaves the mode; nothing if it is this one, or has ended."""
        thread, name = self._began
        if thread == threading.get_ident() or (self._home is not None and self._home() is None):
            return ""
        return (
            f"a watch started in thread {name} was ended in thread {threading.current_thread().name}, which cannot "
            f"remove it from there: it records nothing more, but calls into PyTorch still pass through it until {name} "
            "ends. End a watch in the thread that started it"
        )

    def rest(self) -> bool:
        """Note nothing more; return whether the mode stays on, passing calls on until `stop`.

        What `torch.compile` has compiled while it was on is compiled anew without it, or raises where the program
        forbids that. From Python 3.12 on it is off within compiled functions.
        """
        if self._regions is not None or not has_compiled():
            return False
        if threading.gettrace() == self._arrive:
            threading.settrace(None)
        self._mode.ended = self._resting = True
        return True

    @uncompiled
    def _arrive(self, frame: FrameType, event: str, arg: Any) -> None:
        """Be called once in a new thread, at its first line, and be its tracer no more.

        Threads that the program does not wait for (daemons) are left alone: they are cut off in the midst of anything,
        and then `_End` is not asked.
        """
        sys.settrace(None)
        if not self._mode.ended and not threading.current_thread().daemon:
            self._meet()

    def _meet(self) -> None:
        """Put the mode on in this thread for the first time."""
        self._log.threads.here()
        put(self._mode)
        if not _is_main():
            self._here.end = _End(self._mode)

    def off(self, token: object) -> None:
        """Take the mode off in this thread, unless it is off already, until `on` is called with this `token`."""
        here = self._here
        if here.off or remove(self._mode):
            here.off.append(token)

    def on(self, token: object, name: str = "") -> None:
        """Put the mode on again. What was made meanwhile counts as made by the line that is now running, as `name`."""
        here = self._here
        if not any(each is token for each in here.off):
            return
        while here.off.pop() is not token:
            pass  # a call that an exception ended without our being told
        if here.off:
            return
        if not self._mode.ended or self._resting:
            put(self._mode)
        if self._mode.ended:
            return
        table, now = self._log.threads.here(), next_number()
        frame = innermost(sys._getframe(1))
        if now != table.known and frame is not None:
            table.add(table.known, now, self._log.sites.of_call(frame, name, None))

    def is_off(self) -> bool:
        """Whether the mode is off in this thread for now."""
        return bool(self._here.off)

    def enter(self, module: torch.nn.Module) -> None:
        """Note that a call of `module` begins."""
        self.end_step()  # one that raised has not ended
        if must_not_see_a_mode(module):
            self.off(module)

    def leave(self, module: torch.nn.Module) -> None:
        """Note that a call of `module` ends."""
        if self._here.off:
            self.on(module, type(module).__name__)

    def begin_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that an optimizer steps: what it does is told as one."""
        if not any(group.get("differentiable") for group in groups(optimizer)):
            self.off(_STEP)

    def end_step(self) -> None:
        """Note that the step has ended."""
        if self._home is not None and self._home() is None and _is_main():
            self._home = None
            if not self._mode.ended:
                self._meet()
        if self._here.off:
            self.on(_STEP)


def _is_main() -> bool:
    return threading.get_ident() == threading.main_thread().ident


_STEP = object()
