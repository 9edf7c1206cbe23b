"""An optimizer on its way through the steps of a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backsight.gradient_release.counters import Counter, counting, numbers
from backsight.gradient_release.scenario import Given, Jump, gradients_of

SAME = 3
"""Counters that differ by no more than this come to a count within the steps after one jump."""


class Course:
    """Gives an optimizer the gradients of each step, and moves its counters where the scenario jumps.

    Attributes:
        counts: where the optimizer counts its steps, known from the fourth step on.
        reached: the greatest count that there was.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor]):
        self.optimizer = optimizer
        self.parameters = parameters
        self.counts: set[tuple[Any, ...]] = set()
        self.reached = 0
        self._earlier: dict[tuple[Any, ...], Counter] = {}
        self._own: list[tuple[dict[str, Any], str, Any]] = []

    def prepare(self, number: int, given: Given) -> None:
        """Set gradients and counters for a step."""
        for each, gradient in zip(self.parameters, gradients_of(given, self.parameters, number), strict=True):
            each.grad = gradient
        if number == 2:
            self._earlier = numbers(self.optimizer)
        elif number == 3:
            self.counts = counting(self._earlier, numbers(self.optimizer))
        if given.jump is not None and self.counts:
            self._jump(given.jump)
        self._set(given.setting)

    def _set(self, setting: tuple[str, float] | None) -> None:
        """Put back the settings of the step before, and set one in all groups that have it, and not as 0."""
        for group, key, own in self._own:
            _assign(group, key, own)
        self._own = []
        if setting is not None:
            key, value = setting
            for group in self.optimizer.param_groups:
                own = group.get(key)
                if isinstance(own, torch.Tensor) or (isinstance(own, (float, tuple)) and own not in (0.0, ())):
                    self._own.append((group, key, own.detach().clone() if isinstance(own, torch.Tensor) else own))
                    _assign(group, key, (value, *own[1:]) if isinstance(own, tuple) else value)

    def own(self) -> list[list[torch.Tensor]]:
        """Return, for each parameter, the tensors that are its own: itself, its gradient and its state."""
        state = self.optimizer.state
        return [[*tensors_of([each, each.grad, state.get(each)])] for each in self.parameters]

    def leaders(self) -> list[int]:
        """Return what the counters tell, the greatest first, of those that are nearly equal only the greatest."""
        found: list[int] = []
        for value in sorted({int(each.value) for each in self._counters()}, reverse=True):
            if not found or found[-1] - value > SAME:
                found.append(value)
        return found

    def _jump(self, jump: Jump) -> None:
        """Move all counters on by as much as the one that is to come to a count."""
        leaders = self.leaders()
        if jump.leader < len(leaders):
            by = max(0, jump.to - leaders[jump.leader])
            for each in self._counters():
                each.add(by)
            self.reached = max(self.reached, leaders[0] + by + 3)

    def _counters(self) -> list[Counter]:
        return [each for at, each in numbers(self.optimizer).items() if at in self.counts]


def _assign(group: dict[str, Any], key: str, value: Any) -> None:
    """Set a setting; one that is a tensor stays the same tensor."""
    if isinstance(group[key], torch.Tensor):
        with torch.no_grad():
            group[key].copy_(torch.as_tensor(value))
    else:
        group[key] = value


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a state: in containers, in subclasses that are made of others, and in objects."""
    found: list[torch.Tensor] = []
    waiting, seen = [value], set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, torch.Tensor) and hasattr(each, "__tensor_flatten__"):
            waiting += [getattr(each, name) for name in each.__tensor_flatten__()[0]]
        elif isinstance(each, torch.Tensor):
            found.append(each)
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, (list, tuple)):
            waiting += each
    return found
