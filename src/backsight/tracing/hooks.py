"""The hooks of a watch: PyTorch's own, on every module's forward and every optimizer's step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from backsight.tape import CallLog, modules_in
from backsight.tracing.compiled import Hushed
from backsight.tracing.steps import StepLog

Guard = Callable[[Callable[..., None]], Callable[..., None]]


class Hooks:
    """Logs module calls and optimizer steps until it is stopped."""

    def __init__(self, calls: CallLog, steps: StepLog, guarded: Guard, model: torch.nn.Module | None):
        of_interest = None if model is None else {id(module) for _, module in modules_in(model)}

        def enter(module: torch.nn.Module, args: Any) -> None:
            if of_interest is None or id(module) in of_interest:
                calls.enter(module)

        def leave(module: torch.nn.Module, args: Any, output: Any) -> None:
            if of_interest is None or id(module) in of_interest:
                calls.leave(module)

        def stepped(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
            steps.stepped(optimizer)

        self._handles: list[Any] = [
            register_module_forward_pre_hook(guarded(enter)),
            register_module_forward_hook(guarded(leave), always_call=True),
            register_optimizer_step_post_hook(guarded(stepped)),
            Hushed(),
        ]

    def stop(self) -> str:
        """Remove every hook."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        return ""
