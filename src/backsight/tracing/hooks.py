"""The hooks of a watch: PyTorch's own, on every module's forward and every optimizer's step."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import is_grad_enabled
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from backsight.tape import CallLog, Hushed, modules_in, uncompiled, unnumbered
from backsight.tracing._torch import has_compiled, must_not_see_a_mode
from backsight.tracing.changes import StepChanges
from backsight.tracing.exact import Exact
from backsight.tracing.log import Log
from backsight.tracing.program import innermost
from backsight.tracing.steps import StepLog, parameters

Guard = Callable[[Callable[..., None]], Callable[..., None]]


class ModuleHooks:
    """Logs module calls until it is stopped; tells the exact level, where it is on, of them.

    What `torch.compile` has compiled is compiled anew where the number of global hooks changes. So where it has
    compiled anything, hooks that are paused stay, and do nothing; and none come back that were gone.

    A call without gradients makes no nodes: only the outermost ones are logged, whose names those within them may need
    that turn gradients on; or all, with `all_calls`.
    """

    def __init__(self, calls: CallLog, model: torch.nn.Module | None, guarded: Guard, *, all_calls: bool):
        self._calls, self._guarded, self._all_calls = calls, guarded, all_calls
        self._exact: Exact | None = None
        self._idle = False
        self._of_interest = None if model is None else {id(module) for _, module in modules_in(model)}
        self._handles: list[Any] = []

    def attend(self, exact: Exact | None, *, again: bool = False) -> None:
        """Log module calls from now on; `again`: after a pause."""
        if again and not self._handles and has_compiled():
            return
        self._exact, self._idle = exact, False
        self._calls.open()
        if self._handles:
            return
        with unnumbered():
            self._handles = [
                register_module_forward_pre_hook(
                    self._unless_idle(self._enter, lambda _: not self._calls.is_running())
                ),
                register_module_forward_hook(self._unless_idle(self._leave, self._calls.is_open), always_call=True),
                Hushed(),
                Headroom(),
            ]

    def pause(self, resting: Exact | None) -> None:
        """Log none, and remove the hooks if nobody minds; an exact level that is resting goes on being told."""
        self._exact, self._idle = resting, True
        self._calls.close()
        if not has_compiled():
            self.remove()

    def remove(self) -> None:
        """Remove every hook."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _unless_idle(
        self, hook: Callable[..., None], matters: Callable[[torch.nn.Module], bool]
    ) -> Callable[..., None]:
        """Make nothing of calls while paused, nor of those without gradients that do not matter."""
        noted = self._guarded(hook)

        @uncompiled
        def called(module: torch.nn.Module, *given: Any) -> None:
            if is_compiling():
                return
            logged = not self._idle and (is_grad_enabled() or self._all_calls or matters(module))
            if logged or self._has_its_say(module):
                noted(module, *given)

        return called

    def _has_its_say(self, module: torch.nn.Module) -> bool:
        """Whether the exact level has to know of a call although it makes no node."""
        exact = self._exact  # read once here and below: another thread may pause the watch at any time
        return exact is not None and (exact.is_off() or must_not_see_a_mode(module))

    def _enter(self, module: torch.nn.Module, args: Any) -> None:
        if self._is_logged(module):
            self._calls.enter(module)
        if (exact := self._exact) is not None:
            exact.enter(module)

    def _leave(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if (exact := self._exact) is not None:
            exact.leave(module)
        if self._is_logged(module):
            self._calls.leave(module)

    def _is_logged(self, module: torch.nn.Module) -> bool:
        return not self._idle and (self._of_interest is None or id(module) in self._of_interest)


class StepHooks:
    """Logs optimizer steps and what they change, tells the exact level of them, and while it is idle counts them.

    The hooks stay until it is stopped: an optimizer iterates over the live dict of them while it calls one.
    """

    def __init__(self, steps: StepLog, guarded: Guard, borne: Guard):
        self._steps, self._guarded, self._borne = steps, guarded, borne
        self._attended: tuple[Log, StepChanges, Exact | None] | None = None
        """Where steps are logged; read once by each hook, as another thread may let the watch idle at any time."""
        self._handles: list[Any] = []

    def start(self) -> str:
        """Register the hooks."""
        begin, end = self._guarded(self._stepping), self._guarded(self._stepped)
        count = self._borne(self._steps.counted)

        @uncompiled
        def stepping(*given: Any) -> None:
            if not is_compiling() and self._attended is not None:
                begin(*given)

        @uncompiled
        def stepped(*given: Any) -> None:
            if not is_compiling():
                (count if self._attended is None else end)(*given)

        with unnumbered():
            self._handles = [register_optimizer_step_pre_hook(stepping), register_optimizer_step_post_hook(stepped)]
        return ""

    def attend(self, log: Log, exact: Exact | None) -> None:
        """Log what steps change, from now on."""
        self._attended = log, StepChanges(log.changes), exact

    def idle(self) -> None:
        """Only count them, from now on."""
        self._attended = None

    def stop(self) -> str:
        """Remove every hook."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        return ""

    def _stepping(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if (attended := self._attended) is None:
            return
        _, changes, exact = attended
        changes.begin(parameters(optimizer))
        if exact is not None and not any(map(callable, (*args[1:], *kwargs.values()))):
            exact.begin_step(optimizer)

    def _stepped(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if (attended := self._attended) is not None:
            log, changes, exact = attended
            if exact is not None:
                exact.end_step()
            frame = innermost(sys._getframe(1))
            op = f"{type(optimizer).__name__}.step()"
            site = log.sites.of_call(frame, op, None) if frame is not None else 0
            changes.end(parameters(optimizer), op, site)
            log.captures.stepped(optimizer, site)
        self._steps.stepped(optimizer)


_OURS = 150
"""Frames that our own code needs above the program's."""

_limits: list[int] = []  # while anybody has raised it: the program's, and the one it was raised to
_users = 0


class Headroom:
    """Room on Python's stack for the frames that hooks add to it, so that a program recurses as deep as without them.

    It raises the limit of recursion by a third until `remove`; one that the program sets meanwhile stays. PyTorch calls
    a module through one frame more where there is a hook on all modules, and a program of 240 modules within one
    another, which plain Python just allows, would end with a RecursionError.

    Source: torch/nn/modules/module.py, `_call_impl`.
    """

    def __init__(self) -> None:
        global _users
        if not _users:
            before = sys.getrecursionlimit()
            _limits[:] = before, before + before // 3 + _OURS
            sys.setrecursionlimit(_limits[1])
        _users += 1

    def remove(self) -> None:
        """Set it back, unless another still needs it."""
        global _users
        _users -= 1
        if not _users and sys.getrecursionlimit() == _limits[1]:
            sys.setrecursionlimit(_limits[0])
