"""Hooks that pile up: how often each is registered, counted at spaced steps."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.hooked import hooks, piled
from backsight.launch.sign import Sign, Step
from backsight.tape import modules_in
from backsight.tracing.steps import parameters

_FIRST = 4
"""The step of an optimizer at which is looked first."""

_LOOKS = 3
"""Looks at which there were more copies of a hook each time."""

_MOST = 512
"""Parameters and modules that are looked at."""


class Piling(Sign):
    """Follows the hooks of the parameters of optimizers, and of the modules of models."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, Any], list[tuple[int, int]]] = {}
        self._held: dict[int, weakref.ref[Any]] = {}
        self._found: dict[Any, Finding] = {}

    def doubled(self, step: Step) -> None:
        if step.steps < _FIRST:
            return
        modules = [module for model in step.models for _, module in modules_in(model)]
        grown: dict[Any, list[Any]] = {}
        followed: list[torch.Tensor | torch.nn.Module] = [*parameters(step.optimizer)[:_MOST], *modules[:_MOST]]
        for held in followed:
            for hook, count in hooks(held).items():
                if count > 1 and self._has_grown(held, hook, count, step.number):
                    grown.setdefault(hook, []).append(held)
        for hook, every in grown.items():
            if hook not in self._found:
                self._found[hook] = piled(every, hook, self._counts[id(every[0]), hook], step.caller())

    def _has_grown(self, held: Any, hook: Any, count: int, step: int) -> bool:
        """Whether there were more and more copies of a hook, and never fewer."""
        known = self._held.get(id(held))
        if known is None or known() is not held:
            self._held[id(held)] = weakref.ref(held)
            for key in [key for key in self._counts if key[0] == id(held)]:
                del self._counts[key]
        counts = self._counts.setdefault((id(held), hook), [])
        if counts and count < counts[-1][1]:
            counts.clear()
        if not counts or count > counts[-1][1]:
            counts.append((step, count))
        return len(counts) >= _LOOKS and count > _LOOKS
