"""What a program means to train, and whether a gradient goes into a value."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from backsight.story.failure import Failure
from backsight.story.holders import found_around
from backsight.story.memory import is_module
from backsight.tape import parameters_in, tensors_in
from backsight.tracing.steps import parameters


@dataclass(frozen=True)
class Trained:
    """The ids of the parameters in the program's optimizers; None if there is no optimizer."""

    owned: frozenset[int] | None

    def carries(self, value: object) -> bool | None:
        """Whether a gradient goes into `value`: a tensor, tensors or a module; None where there is no tensor in it."""
        if is_module(value):
            return any(self.is_trained(parameter) for parameter in parameters_in(value)) or None
        tensors = [each for each in tensors_in(value) if isinstance(each, torch.Tensor)]
        return any(each.requires_grad for each in tensors) if tensors else None

    def is_trained(self, parameter: torch.Tensor) -> bool:
        return parameter.requires_grad and (self.owned is None or id(parameter) in self.owned)


def trained(failure: Failure) -> Trained:
    """Find the optimizers around the failure."""
    optimizers = found_around(failure.frames, torch.optim.Optimizer)
    owned = {id(p) for each, _ in optimizers for p in parameters(each)}
    return Trained(frozenset(owned) if owned else None)
