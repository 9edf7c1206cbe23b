"""The numbers of parameter groups: learning rates, and whatever else an optimizer is set to."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from backsight.recording.called import called
from backsight.recording.losses import Number, number
from backsight.snapshot import groups

AGAIN = 64
"""Recorded steps after which a number that has not changed is written down again, for those who look on."""

MOST = 64
"""Groups of an optimizer whose numbers are taken."""


class Groups:
    """The numbers of each parameter group, as each optimizer steps with them.

    `lr` of a single group, `lr (group 1)` of several; of several optimizers also by the name of its variable,
    `critic_optimizer lr`.
    """

    def __init__(self, several: Callable[[], bool], met: Callable[[dict[str, Any]], None]) -> None:
        self._several = several
        self._met = met
        self._known: dict[int, tuple[weakref.ref[torch.optim.Optimizer], str]] = {}
        self._found: dict[str, Number] = {}
        self._written: dict[str, tuple[int, int, Number]] = {}
        """What was written down last of each number, when, counted from 0, and of which step."""
        self._pages = 0
        self._step = -1
        """The step that ended last."""
        self._rates: dict[int, list[Any]] = {}
        """The learning rates of each optimizer, by id, as it stepped last."""
        self._changed = False
        """Whether one has changed while nothing was recorded."""

    def stepping(self, optimizer: torch.optim.Optimizer) -> None:
        """Take what an optimizer is about to step with."""
        held = groups(optimizer)[:MOST]
        known = self._known.get(id(optimizer))
        if known is None or known[0]() is not optimizer:
            known = self._known[id(optimizer)] = weakref.ref(optimizer), self._named(optimizer)
            settings = [dict(_settings(group)) for group in held]
            self._met({"optimizer": type(optimizer).__name__, "name": known[1] or None, "groups": settings})
        self._rates[id(optimizer)] = _rates(held)
        prefix = f"{known[1]} " if known[1] else ""
        for k, group in enumerate(held):
            suffix = f" (group {k})" if len(held) > 1 else ""
            for name, value in _numbers(group):
                self._found[f"{prefix}{name}{suffix}"] = value

    def passing(self, optimizer: torch.optim.Optimizer) -> None:
        """Look at what an optimizer steps with while nothing is recorded: at all of it where a learning rate changed.

        One that a tensor holds is not followed there.
        """
        if (before := self._rates.get(id(optimizer))) is not None and before != _rates(groups(optimizer)[:MOST]):
            self.stepping(optimizer)
            self._changed = True

    def passed(self, step: int) -> dict[int, dict[str, Number]]:
        """Return what is to be written down as this step ends, of which nothing else is recorded."""
        if self._changed:
            return self.taken(step)
        self._step = step
        return {}

    def taken(self, step: int) -> dict[int, dict[str, Number]]:
        """Return what is to be written down as this step ends.

        A number is written where it changes, with its last step before, so that a line through the points is right.
        """
        self._changed = False
        due: dict[int, dict[str, Number]] = {}
        for name, value in self._found.items():
            page, at, before = self._written.get(name, (-AGAIN, -1, None))
            same = not isinstance(value, torch.Tensor) and value == before
            if same and self._pages - page < AGAIN:
                continue
            if before is not None and not same and at < self._step and not isinstance(before, torch.Tensor):
                due.setdefault(self._step, {})[name] = before
            due.setdefault(step, {})[name] = value
            self._written[name] = self._pages, step, value
        self._pages, self._step = self._pages + 1, step
        return due

    def last(self) -> dict[int, dict[str, Number]]:
        """Return what the last step had and was not written down."""
        late = {name: value for name, (_, at, value) in self._written.items() if at < self._step}
        return {self._step: late} if late else {}

    def _named(self, optimizer: torch.optim.Optimizer) -> str:
        return (called([optimizer])[0] or type(optimizer).__name__) if self._several() else ""


def _rates(held: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the learning rate of each group, where it is a plain number."""
    rates = (group.get("lr") for group in held)
    return [rate if _is_number(rate) else None for rate in rates]


def _numbers(group: dict[str, Any]) -> Iterator[tuple[str, Number]]:
    """Yield the numbers of a group: `lr`, and `betas[0]` of what is a list of them."""
    for key, value in group.items():
        if _is_number(value):
            yield key, float(value)
        elif type(value) in (tuple, list) and key != "params":
            for k, each in enumerate(value):
                if _is_number(each):
                    yield f"{key}[{k}]", float(each)
        elif isinstance(value, torch.Tensor) and (found := number(value)) is not None:
            yield key, found


def _settings(group: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a group is set to, as JSON can hold it; a tensor is among the numbers of each step."""
    for key, value in group.items():
        if key == "params":
            yield "tensors", len(value)
        elif type(value) in (bool, str):
            yield key, value
        elif _is_number(value):
            yield key, float(value)
        elif type(value) in (tuple, list) and all(map(_is_number, value)):
            yield key, [float(each) for each in value]


def _is_number(value: Any) -> bool:
    """Whether this is a plain number, or one of NumPy's, as schedules compute them."""
    return type(value) in (float, int) or isinstance(value, (np.floating, np.integer))
