"""What may be otherwise about a step: a value that Python reads, a gradient, a counter.

Where nothing but that one parameter's own step changes, no decision about another hangs on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from backsight.gradient_release.counters import numbers
from backsight.gradient_release.flow import Flow
from backsight.gradient_release.labels import Labels
from backsight.gradient_release.reads import Operations

FLOATS = (0.0, 1.0, -1.0, 1e12, 1e-12, math.inf, math.nan)
WHOLE = (0, 1, -1, 10**6)
FACTORS = (math.nan, 1e4, math.inf, 1e-12, 0.0, -1.0)
"""By which a gradient is multiplied."""


class Substitution(Operations):  # type: ignore[no-untyped-call]  # PyTorch's modes are untyped
    """Has one read of a step, counted from 0, return something else."""

    def __init__(self, number: int, value: Any):
        super().__init__()
        self._left = number
        self._value = value

    def on_read(self, operation: str, tensors: list[torch.Tensor], value: Any) -> Any:
        """Return the other value for this read, and for all others what they return."""
        self._left -= 1
        return _like(value, self._value) if self._left == -1 else value


class Detour(Flow):  # type: ignore[no-untyped-call]  # as above
    """Follows a step in which one read, counted from 0, returns something else."""

    def __init__(self, own: Sequence[Sequence[torch.Tensor]], number: int, value: Any):
        super().__init__(Labels(), own)
        self._left = number
        self._value = value

    def on_read(self, operation: str, tensors: list[torch.Tensor], value: Any) -> Any:
        """Note a read, and return the other value for this one."""
        super().on_read(operation, tensors, value)
        self._left -= 1
        return _like(value, self._value) if self._left == -1 else value


class Listening(Operations):  # type: ignore[no-untyped-call]  # PyTorch's modes are untyped
    """Takes down what each read of a step returns."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[Any] = []

    def on_read(self, operation: str, tensors: list[torch.Tensor], value: Any) -> Any:
        """Take down a read."""
        self.values.append(value)
        return value


def instead_of(value: Any) -> Sequence[Any]:
    """Return what a read may return as well."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return [*(each for each in WHOLE if each != value), value + 1]
    return FLOATS


def other_gradients(gradient: torch.Tensor | None, brief: bool = False) -> Iterator[torch.Tensor | None]:
    """Yield none, and other gradients that a parameter may have; only the most telling ones if it is to be `brief`."""
    if gradient is not None:
        yield None
        for factor in FACTORS[:2] if brief else FACTORS:
            other = gradient.detach().clone()
            yield other.mul_(factor) if math.isfinite(factor) else other.fill_(factor)


def step_ahead(optimizer: torch.optim.Optimizer, parameter: torch.Tensor, by: int) -> bool:
    """Have what is counted for one parameter be further on; return whether anything is."""
    counts = [
        each
        for at, each in numbers(optimizer).items()
        if at[:2] == ("state", id(parameter)) and each.value >= 1 and float(each.value).is_integer()
    ]
    for each in counts:
        each.add(by)
    return bool(counts)


def _like(value: Any, other: Any) -> Any:
    """Return another value in the form of one that was read."""
    if isinstance(value, list):
        return [_like(each, other) for each in value]
    if isinstance(value, np.ndarray):
        with np.errstate(all="ignore"):
            return np.full_like(value, other) if value.dtype.kind in "fc" or _is_whole(other) else value
    if isinstance(value, bool) or (isinstance(value, int) and not _is_whole(other)):
        return value if not isinstance(other, bool) else other
    return other


def _is_whole(value: Any) -> bool:
    return math.isfinite(value) and value == int(value)
