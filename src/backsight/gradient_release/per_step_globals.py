"""What an optimizer counts once a step, which partial steps must not count several times.

Many optimizers outside of PyTorch keep a counter, a schedule or a running value in `param_groups[i]`, in their own
attributes, or in `state` under a key that is no tensor. Such a value belongs to the step, not to a parameter: every
partial step has to begin with the value from before the step, and one value has to be there in the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, NamedTuple

import torch

from backsight.gradient_release.errors import CoupledOptimizer

MOST_ELEMENTS = 4096
"""Tensors of more elements than this belong to parameters; smaller ones may be counters or learning rates."""

_NOT_OURS = frozenset({"params", "param_names"})
_OF_THE_OPTIMIZER = frozenset({"state", "param_groups", "defaults", "step"})
_ABSENT: Any = object()

Container = MutableMapping[Any, Any]


class Kept(NamedTuple):
    """A value as it was: the object itself, and a copy of what it held if it can be changed in place."""

    value: Any
    copy: Any


class PerStepGlobals:
    """Puts back, after each partial step of an optimizer, what belongs to the step as a whole.

    `hold()` before and `release(groups)` after each partial step; `finish()` after the optimizer's own step, which
    installs what that step left out because a group had nothing left for it.
    """

    def __init__(self, optimizer: torch.optim.Optimizer):
        self._optimizer = optimizer
        self._before: list[dict[Any, Kept]] = []
        self._after: dict[int, dict[Any, Kept]] = {}

    def hold(self) -> None:
        """Remember every such value as it is before a partial step."""
        self._before = [_kept(*each) for each in self._containers()]

    def release(self, groups: Iterable[int]) -> None:
        """Put the values back, and remember what the partial step had made of them.

        Raises:
            CoupledOptimizer: if another partial step of these groups has made something else of them.
        """
        containers = self._containers()
        own = range(len(self._optimizer.param_groups), len(containers))
        made = {number: _kept(*containers[number]) for number in (*groups, *own)}
        for (container, skipped), kept in zip(containers, self._before, strict=True):
            _put_back(container, skipped, kept)
        for number, values in made.items():
            earlier = self._after.setdefault(number, values)
            differing = [key for key in {**earlier, **values} if not _same_entry(earlier, values, key)]
            if differing:
                raise CoupledOptimizer(_coupled(self._optimizer, differing[0]))

    def finish(self) -> None:
        """Leave what an undivided step would have left, after the optimizer's own step."""
        after, self._after = self._after, {}
        if not after:
            return
        containers = self._containers()
        for number, values in after.items():
            if number >= len(containers) or number >= len(self._before):
                continue
            (container, skipped), before = containers[number], self._before[number]
            now = _kept(container, skipped)
            for key, value in values.items():
                untouched = _same_entry(now, before, key)
                if untouched and not _same_entry(now, values, key):
                    _install(container, key, value)

    def abandon(self) -> None:
        """Forget the step under way."""
        self._after = {}

    def _containers(self) -> list[tuple[Container, Callable[[Any], bool]]]:
        """Return the groups, the optimizer's attributes and its state, each with what is not to be looked at."""
        optimizer = self._optimizer
        return [
            *((group, _NOT_OURS.__contains__) for group in optimizer.param_groups),
            (vars(optimizer), _is_machinery),
            (optimizer.state, _is_tensor),
        ]


def _is_machinery(attribute: str) -> bool:
    """Whether an attribute of an optimizer holds parameters, their state or hooks, and no counter."""
    return attribute in _OF_THE_OPTIMIZER or (attribute.startswith("_optimizer_") and attribute.endswith("_hooks"))


def _is_tensor(key: Any) -> bool:
    return isinstance(key, torch.Tensor)


def _kept(container: Container, skipped: Callable[[Any], bool]) -> dict[Any, Kept]:
    kept = {}
    for key, value in container.items():
        if not skipped(key) and (copy := _copy(value)) is not _ABSENT:
            kept[key] = Kept(value, copy)
    return kept


def _copy(value: Any) -> Any:
    """Return what is needed to put a value back as it was; `_ABSENT` for what is no counter and is left alone."""
    if value is None or isinstance(value, (int, float, complex, str, bytes)):
        return value
    if isinstance(value, torch.Tensor):
        return value.detach().clone() if value.numel() <= MOST_ELEMENTS and not value.is_sparse else _ABSENT
    if isinstance(value, tuple):
        copies = tuple(_copy(each) for each in value)
        return _ABSENT if any(each is _ABSENT for each in copies) else copies
    if type(value) in (list, deque, set):
        copied = [_copy(each) for each in value]
        return _ABSENT if any(each is _ABSENT for each in copied) else type(value)(copied)
    if isinstance(value, dict) and not any(_is_tensor(key) for key in value):
        entries = {key: _copy(each) for key, each in value.items()}
        return _ABSENT if any(each is _ABSENT for each in entries.values()) else entries
    return _ABSENT


def _put_back(container: Container, skipped: Callable[[Any], bool], kept: dict[Any, Kept]) -> None:
    for key in [key for key in container if not skipped(key) and key not in kept]:
        if _copy(container[key]) is not _ABSENT:
            del container[key]  # made by the partial step; the next one makes it again
    for key, entry in kept.items():
        _install(container, key, entry)


def _install(container: Container, key: Any, entry: Kept) -> None:
    """Put a value into a container as it was then; an object that changes in place stays the same object."""
    value, copy = entry
    now = container.get(key, _ABSENT)
    if isinstance(value, torch.Tensor):
        with torch.no_grad():
            if now is value or not isinstance(now, torch.Tensor) or now.shape != value.shape:
                value.copy_(copy)
            else:
                now.copy_(copy)
                value = now
    elif type(value) in (list, deque):
        value.clear()
        value.extend(copy)
    elif type(value) is set or isinstance(value, dict):
        value.clear()
        value.update(copy)
    if now is not value:
        container[key] = value


def _same_entry(first: dict[Any, Kept], second: dict[Any, Kept], key: Any) -> bool:
    if key not in first or key not in second:
        return key not in first and key not in second
    return same(first[key].copy, second[key].copy)


def same(first: Any, second: Any) -> bool:
    """Whether two values are equal bit for bit, NaN being equal to NaN."""
    if isinstance(first, torch.Tensor) or isinstance(second, torch.Tensor):
        return _same_tensor(first, second)
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, (list, tuple, deque)) and type(first) is type(second):
        return len(first) == len(second) and all(same(one, other) for one, other in zip(first, second, strict=True))
    if bool(first == second) or (first != first and second != second):
        return True
    if type(first) is not type(second) or not hasattr(first, "__dict__"):
        return False
    return same(vars(first), vars(second))  # an object that compares as itself only


def _same_tensor(first: Any, second: Any) -> bool:
    if not (isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)):
        return False
    if first.shape != second.shape or first.dtype != second.dtype or first.device != second.device:
        return False
    return bool(torch.equal(first, second)) or bool(torch.allclose(first, second, rtol=0.0, atol=0.0, equal_nan=True))


def _coupled(optimizer: torch.optim.Optimizer, key: Any) -> str:
    return (
        f"{type(optimizer).__name__} computes its {key!r} from the gradients of all parameters together, so they "
        "cannot be stepped a few at a time. Some were already stepped with a different value: load the last "
        "checkpoint and train with this optimizer without release()."
    )
