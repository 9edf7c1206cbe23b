"""The user's own metrics: functions of a tensor, beside the built-in statistics."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from typing import Any

import torch

from backsight.naming.roots import ours
from backsight.recording._torch import as_the_program
from backsight.recording.page import Page, Slot, Value
from backsight.recording.voice import Voice, told
from backsight.tape import is_captured

LONGEST = 64
"""Numbers that a metric may say of one tensor under one name."""

Metric = Callable[[torch.Tensor], Any]


class Metrics:
    """The metrics by the kind of tensor they are for."""

    def __init__(self, voice: Voice):
        self._voice = voice
        self._by_kind: dict[str, list[Metric]] = {}
        self.running = False
        """Whether a metric is running: what it does to modules is not part of the training."""

    def add(self, kind: str, metric: Metric) -> None:
        """Apply `metric` to every tensor of this kind from now on, in place of one of the same name."""
        name = _name(metric)
        others = [known for known in self._by_kind.get(kind, ()) if _name(known) != name]
        self._by_kind[kind] = [*others, metric]

    def apply(self, page: Page, slot: Slot, call: int, tensor: torch.Tensor) -> None:
        """Note what the metrics for this kind say of the tensor; one that fails is dropped."""
        if not tensor.is_cpu and is_captured():  # there are no values, and asking for one would end the capture
            return
        for metric in self._by_kind.get(slot.kind, ()):
            try:
                said = self._ask(metric, tensor)
            except Exception as failure:  # the user's function, in the middle of the user's training
                self._drop(slot, metric, told(ours(failure)))
                continue
            page.values.extend(
                Value(slot, call, tensor.shape, tensor.dtype, name, value) for name, value in said.items()
            )

    def _ask(self, metric: Metric, tensor: torch.Tensor) -> dict[str, Any]:
        self.running = True
        try:
            with torch.no_grad(), as_the_program():
                said = metric(tensor.detach())
        finally:
            self.running = False
        named = dict(said) if isinstance(said, Mapping) else {_name(metric): said}
        return {_checked_name(name): plain_numbers(value) for name, value in named.items()}

    def _drop(self, slot: Slot, metric: Metric, reason: str) -> None:
        # A new list: the one that is there is being read by `apply`.
        self._by_kind[slot.kind] = [known for known in self._by_kind[slot.kind] if known is not metric]
        self._voice.say(
            f"metric {slot.kind} {_name(metric)}",
            f"the metric {_name(metric)!r} for {slot.kind!r} failed at {slot.name} and is dropped: {reason}",
        )

    def __bool__(self) -> bool:
        return any(self._by_kind.values())


def plain_numbers(value: Any) -> Any:
    """Return what a metric said as a number, a list of numbers, or a small tensor that is ours.

    A tensor is kept as it is, so that the training thread need not wait for its device.

    Raises:
        TypeError: if it is something else.
        ValueError: if it is a longer list.
    """
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            raise TypeError("a metric must return real numbers, not a complex tensor")
        _check_length(value.numel() if value.ndim == 1 else 1 if value.numel() == 1 else LONGEST + 1)
        return value.detach().clone().reshape(-1 if value.ndim == 1 else ())
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, (list, tuple)) or type(value).__module__ == "numpy":
        listed = list(value)
        _check_length(len(listed))
        return [_number(each) for each in listed]
    raise TypeError(f"a metric must return numbers or short lists of them, not {type(value).__name__}")


def _number(value: Any) -> float:
    if isinstance(value, numbers.Real) or (isinstance(value, torch.Tensor) and value.ndim == 0):
        return float(value)
    raise TypeError(f"a metric must return numbers or short lists of them, not a list of {type(value).__name__}")


def _check_length(length: int) -> None:
    if length > LONGEST:
        raise ValueError(f"a metric must return at most {LONGEST} numbers under one name, as a flat list")


def _checked_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a metric must name its values with strings, not {type(name).__name__}")
    return name


def _name(metric: Metric) -> str:
    return str(getattr(metric, "__name__", type(metric).__name__))
