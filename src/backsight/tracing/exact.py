"""The exact level, in every thread: where its mode is on, and where it has to be off."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

import torch

from backsight.snapshot import groups
from backsight.tape import next_sequence_number
from backsight.tracing._torch import must_not_see_a_mode, push, remove
from backsight.tracing.births import Births
from backsight.tracing.functions import Functions
from backsight.tracing.log import Log
from backsight.tracing.program import innermost


class _Here(threading.local):
    """The modules, by id, within whose calls the mode is off in a thread, and the number of the first node of them."""

    def __init__(self) -> None:
        self.off: list[int] = []
        self.first = 0


class Exact:
    """Puts the mode on in this thread and in those that it starts, and takes it off where it would change something."""

    def __init__(self, log: Log, births: Births | None):
        self._log = log
        self._mode = Functions(log, births)
        self._here = _Here()

    def start(self) -> str:
        """Begin."""
        self._log.threads.here()
        push(self._mode)
        if threading.gettrace() is None:
            threading.settrace(self._arrive)
        return ""

    def stop(self) -> str:
        """End: the mode is taken off in this thread, and does nothing more in others."""
        if threading.gettrace() == self._arrive:
            threading.settrace(None)
        remove(self._mode)
        self._mode.log = None
        return ""

    def _arrive(self, frame: FrameType, event: str, arg: Any) -> None:
        """Be called once in a new thread, at its first line, and be its tracer no more."""
        sys.settrace(None)
        if self._mode.log is not None:
            push(self._mode)

    def enter(self, module: torch.nn.Module) -> None:
        """Note that a call of `module` begins."""
        here = self._here
        self._mode.here.stepping = False  # left behind by a step that raised
        if must_not_see_a_mode(module) and (here.off or remove(self._mode)):
            if not here.off:
                here.first = next_sequence_number()
            here.off.append(id(module))

    def leave(self, module: torch.nn.Module) -> None:
        """Note that a call of `module` ends; what it made counts as made by the line that called it."""
        here = self._here
        if not here.off or here.off[-1] != id(module):
            return
        here.off.pop()
        if here.off:
            return
        push(self._mode)
        table, now = self._log.threads.here(), next_sequence_number()
        frame = innermost(sys._getframe(1))
        if now != table.known and frame is not None:
            table.add(max(here.first, table.known), now, self._log.sites.of_call(frame, type(module).__name__, None))

    def begin_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that an optimizer steps: what it does is told as one."""
        self._mode.here.stepping = not any(group.get("differentiable") for group in groups(optimizer))

    def end_step(self) -> None:
        """Note that the step has ended."""
        self._mode.here.stepping = False
