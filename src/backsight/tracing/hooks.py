"""The hooks of a watch: PyTorch's own, on every module's forward and every optimizer's step."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from backsight.tape import CallLog, modules_in
from backsight.tracing.changes import StepChanges
from backsight.tracing.compiled import Hushed
from backsight.tracing.exact import Exact
from backsight.tracing.headroom import Headroom
from backsight.tracing.log import Log
from backsight.tracing.program import innermost
from backsight.tracing.steps import StepLog, parameters

Guard = Callable[[Callable[..., None]], Callable[..., None]]


class Hooks:
    """Logs module calls and optimizer steps until it is stopped; tells the exact level, where it is on, of both."""

    def __init__(self, calls: CallLog, steps: StepLog, log: Log, model: torch.nn.Module | None, exact: Exact | None):
        self._calls, self._steps, self._log, self._exact = calls, steps, log, exact
        self._of_interest = None if model is None else {id(module) for _, module in modules_in(model)}
        self._changes = StepChanges(log.changes)
        self._handles: list[Any] = []

    def start(self, guarded: Guard) -> None:
        """Register the hooks, each of them `guarded`."""
        self._handles = [
            register_module_forward_pre_hook(guarded(self._enter)),
            register_module_forward_hook(guarded(self._leave), always_call=True),
            register_optimizer_step_pre_hook(guarded(self._stepping)),
            register_optimizer_step_post_hook(guarded(self._stepped)),
            Hushed(),
            Headroom(),
        ]

    def stop(self) -> str:
        """Remove every hook."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        return ""

    def _enter(self, module: torch.nn.Module, args: Any) -> None:
        if self._of_interest is None or id(module) in self._of_interest:
            self._calls.enter(module)
        if self._exact is not None:
            self._exact.enter(module)

    def _leave(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if self._exact is not None:
            self._exact.leave(module)
        if self._of_interest is None or id(module) in self._of_interest:
            self._calls.leave(module)

    def _stepping(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._changes.begin(parameters(optimizer))
        if self._exact is not None and not any(map(callable, (*args[1:], *kwargs.values()))):
            self._exact.begin_step(optimizer)

    def _stepped(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self._exact is not None:
            self._exact.end_step()
        frame = innermost(sys._getframe(1))
        op = f"{type(optimizer).__name__}.step()"
        site = self._log.sites.of_call(frame, op, None) if frame is not None else 0
        self._changes.end(parameters(optimizer), op, site)
        self._steps.stepped(optimizer)
