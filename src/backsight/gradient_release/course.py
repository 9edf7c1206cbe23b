"""An optimizer on its way through the steps of a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backsight.gradient_release.counters import Counter, counting, numbers
from backsight.gradient_release.scenario import Given, gradients_of


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

    def own(self) -> list[list[torch.Tensor]]:
        """Return, for each parameter, the tensors that are its own: itself, its gradient and its state."""
        state = self.optimizer.state
        return [[*tensors_of([each, each.grad, state.get(each)])] for each in self.parameters]

    def _jump(self, count: int) -> None:
        counters = [each for at, each in numbers(self.optimizer).items() if at in self.counts]
        farthest = int(max((each.value for each in counters), default=0))
        for each in counters:
            each.add(max(0, count - farthest))
        self.reached = max(self.reached, count + 3, farthest)


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
