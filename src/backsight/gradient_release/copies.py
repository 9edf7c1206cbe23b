"""Optimizers like the user's, made of its class for small random parameters. The user's own is only read."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from backsight.gradient_release.attributes import hand_on
from backsight.gradient_release.errors import NotReleasable

Make = Callable[[list[dict[str, Any]]], torch.optim.Optimizer]
Shape = Callable[[torch.Size], tuple[int, ...]]

_PASSED_ON = (bool, int, float, complex, str, tuple, type(None))


def small(shape: torch.Size) -> tuple[int, ...]:
    """Return a shape of the same dimensions, of at most 4096 elements."""
    most = {0: 1, 1: 64, 2: 64, 3: 16, 4: 8}.get(len(shape), 4)
    return tuple(min(size, most) for size in shape)


def tiny(shape: torch.Size) -> tuple[int, ...]:
    """Return a shape of the same dimensions, of about six elements."""
    return tuple(min(size, 3 if at == len(shape) - 1 else 2 if at == 0 else 1) for at, size in enumerate(shape))


class Copies:
    """Makes optimizers like one of the user's, each for new parameters with the same values.

    Args:
        optimizer: the user's.
        make: makes one like it for other groups; by default its class, with what can be read from its defaults.
        most: how many parameters of a group are copied, those of different dimensions first.
        shape: the shape of a copy.

    Attributes:
        weights: the values of the parameters, group by group.
        made_with: the arguments with which an optimizer is made.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, make: Make | None, most: int, shape: Shape = small):
        kind = type(optimizer)
        self.original = optimizer
        arguments = _arguments(optimizer)
        self.made_with = (
            tuple(f"{name}={value!r}" for name, value in arguments.items()) if make is None else ("make()",)
        )
        self._make = make or (lambda groups: kind(groups, **arguments))
        self._generator = torch.Generator().manual_seed(0)
        self._settings = [_settings(group, optimizer.defaults) for group in optimizer.param_groups]
        self.weights = [
            [self.random(each, shape(each.shape)) for each in _chosen(group["params"], most)]
            for group in optimizer.param_groups
        ]

    @property
    def flat(self) -> list[torch.Tensor]:
        """The values of all parameters."""
        return [each for group in self.weights for each in group]

    @property
    def places(self) -> list[int]:
        """The group of each parameter."""
        return [number for number, group in enumerate(self.weights) for _ in group]

    def new(self) -> tuple[torch.optim.Optimizer, list[torch.Tensor]]:
        """Return a new optimizer and its parameters; random numbers begin anew."""
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        weights = [[torch.nn.Parameter(each.clone()) for each in group] for group in self.weights]
        try:
            optimizer = self._made(weights)
        except Exception as failure:
            raise NotReleasable(
                f"{type(self.original).__name__} cannot be probed: backsight could not create one from its defaults "
                f"({type(failure).__name__}: {failure}). Pass make=, a function that creates one for other groups: "
                f"release(optimizer, make=lambda groups: {type(self.original).__name__}(groups, ...))."
            ) from failure
        hand_on(self.original, optimizer)
        train = getattr(optimizer, "train", None)
        if callable(train):  # schedulefree: it steps only in this mode
            train()
        return optimizer, [each for group in weights for each in group]

    def random(self, like: torch.Tensor, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        """Return random numbers, of the type and on the device of a tensor."""
        made = torch.randn(like.shape if shape is None else shape, generator=self._generator)
        return made.to(like.device, like.dtype)

    def _made(self, weights: list[list[torch.nn.Parameter]]) -> torch.optim.Optimizer:
        """Make an optimizer: of what is in its defaults, or else of all that its groups hold, such as `use_muon`."""
        groups = [{**settings, "params": group} for settings, group in zip(self._settings, weights, strict=True)]
        try:
            return self._make(groups)
        except Exception:
            self._settings = [_settings(group, group) for group in self.original.param_groups]
            groups = [{**settings, "params": group} for settings, group in zip(self._settings, weights, strict=True)]
            return self._make(groups)


def _arguments(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return what the constructor of an optimizer takes, as far as it can be read from its defaults and attributes."""
    known = {**vars(optimizer), **optimizer.defaults}
    taken = list(inspect.signature(type(optimizer).__init__).parameters.values())[2:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        each.name: known[each.name]
        for each in taken
        if each.kind in named and each.name in known and isinstance(known[each.name], _PASSED_ON)
    }


def _settings(group: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a group that are to be passed on: those that are wanted, and are no tensors of state."""
    return {
        key: value
        for key, value in group.items()
        if key in wanted and key not in ("params", "param_names") and isinstance(value, (*_PASSED_ON, torch.Tensor))
    }


def _chosen(parameters: list[torch.Tensor], most: int) -> list[torch.Tensor]:
    """Return a few of the parameters of a group, in their order.

    Those of different dimensions and types come first, and then a second one of each kind, and so on.
    """
    of_kind: dict[tuple[int, torch.dtype], int] = {}
    turns = []
    for number, each in enumerate(parameters):
        kind = each.dim(), each.dtype
        of_kind[kind] = of_kind.get(kind, 0) + 1
        turns.append((of_kind[kind], number))
    return [parameters[number] for number in sorted(number for _, number in sorted(turns)[:most])]
