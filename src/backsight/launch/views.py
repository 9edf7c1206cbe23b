"""Two results of one model in each step, of which the loss uses one: and two views of the data that are one tensor."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.views import same_values, same_view, unused_view
from backsight.launch.sign import Sign, Step, caller
from backsight.source.body import column_at
from backsight.tape import grad_fn, tensors_in, unnumbered
from backsight.tape.saved import is_readable
from backsight.tracing import Change, Watch
from backsight.tracing.changes import version

_ROW = 3
"""Steps in a row in which it is so."""

_MOST = 8
"""Calls of one step that are compared."""

_LARGEST = 1 << 22

Where = tuple[CodeType, int, int]
"""The code that calls a model, the line, and the column of the call there."""


@dataclass(eq=False)
class _Call:
    """A call of a model in this step, and whether a gradient has come back to what it returned."""

    model: weakref.ref[torch.nn.Module]
    where: Where
    given: weakref.ref[torch.Tensor] | None
    version: int
    made: weakref.ref[torch.Tensor]
    heard: list[bool] = field(default_factory=lambda: [False])


class Views(Sign):
    """Notes, between two optimizer steps, the calls of each model, and compares them."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._calls: list[_Call] = []
        self._hooks: list[Any] = []
        self._unheard: dict[tuple[Where, Where], int] = {}
        self._same: dict[tuple[Where, Where], int] = {}
        self._found: dict[str, Finding] = {}

    def returned(self, module: torch.nn.Module, given: Any, output: Any) -> None:
        made = next((t for t in tensors_in(output) if isinstance(t, torch.Tensor)), None)
        node = grad_fn(made) if made is not None else None
        if made is None or node is None or len(self._calls) >= _MOST or self._found:
            return
        frame = caller()
        first = next((t for t in tensors_in(given) if isinstance(t, torch.Tensor)), None)
        column = column_at(frame)
        call = _Call(
            weakref.ref(module),
            (frame.f_code, frame.f_lineno, -1 if column is None else column),
            weakref.ref(first) if first is not None else None,
            version(first) if first is not None else 0,
            weakref.ref(made),
        )
        for before in self._calls:
            self._compare(before, call, first, made)
        heard = call.heard
        with unnumbered():
            self._hooks.append(node.register_prehook(lambda _: heard.__setitem__(0, True)))
        self._calls.append(call)

    def each_step(self, step: Step) -> None:
        if not self._calls:
            return
        for handle in self._hooks:
            handle.remove()
        self._hooks.clear()
        calls, self._calls = self._calls, []
        if not any(each.heard[0] for each in calls):
            return  # the model of another optimizer
        for one in calls:
            for other in calls:
                pair = one.where, other.where
                if one.heard[0] and not other.heard[0] and one.model() is other.model() and pair[0] != pair[1]:
                    self._unheard[pair] = self._unheard.get(pair, 0) + 1
                    if self._unheard[pair] == _ROW:
                        self._tell(unused_view(*pair, step.number - _ROW + 1))

    def _compare(self, before: _Call, call: _Call, given: torch.Tensor | None, made: torch.Tensor) -> None:
        """Note that a model was given the very same tensor as before, and has returned the same."""
        first, pair = before.made(), (before.where, call.where)
        if before.model() is not call.model() or pair[0] == pair[1] or given is None or first is None:
            return
        seen = before.given() if before.given is not None else None
        if seen is None or (seen is given and before.version != call.version) or not _are_same(seen, given):
            return
        if first.shape != made.shape or not (is_readable(first) and is_readable(made)):
            return
        if not torch.equal(first.detach(), made.detach()):
            return
        self._same[pair] = self._same.get(pair, 0) + 1
        if self._same[pair] == _ROW:
            since = self._watch.steps.count - _ROW + 2
            writes = _written(self._watch.changes(given)) if seen is given else None
            self._tell(same_view(*pair, writes, since) if writes is not None else same_values(*pair, since))

    def _tell(self, found: Finding | None) -> None:
        if found is not None:
            self._found.setdefault(found.title, found)


def _are_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same values, of which there are some."""
    if one is other:
        return True
    known = is_readable(one) and is_readable(other) and one.shape == other.shape and one.dtype == other.dtype
    return known and 1 < one.numel() <= _LARGEST and torch.equal(one.detach(), other.detach())


def _written(changes: Sequence[Change]) -> list[Change]:
    """Return what was seen to write into a tensor."""
    return [each for each in changes if each.line is not None and each.kind == "in place"]
