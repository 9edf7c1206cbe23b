"""Weights that the program sets to zero between two steps, and whether they stay so."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.pruned import regrown
from backsight.launch.sign import Sign, Step
from backsight.tape import Living, is_captured
from backsight.tape.saved import is_readable
from backsight.tracing.changes import version
from backsight.tracing.steps import parameters

_MOST = 8
"""Weights of an optimizer that are followed,"""
_VALUES = 4096
"""values of each,"""
_LOOKS = 64
"""and looks at what was changed between two steps."""

_MOST_KNOWN = 256

_SHARE = 0.2
"""Of the values, which become zeros."""

_FEW = 3
"""Times that this is done: what is done more often may be a projection, or be released on purpose."""


@dataclass(slots=True)
class _Weight:
    """What is known of one weight: its version and place after the last step, and where it had zeros then."""

    weight: weakref.ref[torch.Tensor]
    state: tuple[int, int]
    share: float
    zeros: torch.Tensor | None = None
    since: int = 0
    times: int = 0
    is_undone: bool = False

    @property
    def is_regrown(self) -> bool:
        weight = self.weight()
        return self.is_undone and self.times <= _FEW and weight is not None and self.left(weight) < 0.5

    def left(self, weight: torch.Tensor) -> float:
        """Return which share of what was set to zero is zero now."""
        return float((_sample(weight) == 0)[self.zeros].float().mean()) if self.zeros is not None else 1.0


class Pruned(Sign):
    """Compares versions before and after each step, and reads values where the program has changed some between."""

    def __init__(self) -> None:
        self._weights: Living[list[_Weight]] = Living()
        self._of: dict[int, _Weight] = {}
        self._looks = 0
        self._finding: tuple[Finding, list[_Weight]] | None = None

    def stepping(self, optimizer: torch.optim.Optimizer, key: int, number: int) -> None:
        known = self._weights.at(key)
        if known is None:
            known = list(self._followed(optimizer)) if not is_captured() else []
            self._weights.put(key, optimizer, known)
        for each in known if self._looks < _LOOKS else ():
            weight = each.weight()
            if weight is not None and _state(weight) != each.state and not is_captured():
                self._look(each, weight, number)

    def _followed(self, optimizer: torch.optim.Optimizer) -> Iterator[_Weight]:
        """Yield the weights of a new optimizer; of those that another one has trained, what is known already."""
        found = [p for p in parameters(optimizer) if p.dim() > 1 and is_readable(p) and p.layout == torch.strided]
        for each in found[:_MOST]:
            known = self._of.get(id(each))
            if known is None or known.weight() is not each:
                if len(self._of) >= _MOST_KNOWN:
                    self._of.clear()
                share = float((_sample(each) == 0).float().mean())
                known = self._of[id(each)] = _Weight(weakref.ref(each), _state(each), share)
            yield known

    def _look(self, known: _Weight, weight: torch.Tensor, number: int) -> None:
        self._looks += 1
        zeros = _sample(weight) == 0
        share = float(zeros.float().mean())
        if share < 1.0 and (share >= known.share + _SHARE or (known.zeros is not None and share >= _SHARE)):
            known.zeros, known.times, known.is_undone = zeros, known.times + 1, False
            known.since, known.share = number + 1, share
        elif known.zeros is None:
            known.share = share

    def each_step(self, step: Step) -> None:
        undone = []
        for each in self._weights.at(step.key) or ():
            weight = each.weight()
            if weight is None:
                continue
            each.state = _state(weight)
            if each.zeros is not None and not each.is_undone and each.since == step.number:
                each.is_undone = each.left(weight) < 0.5
                undone += [each] if each.is_undone else []
        if undone and self._finding is None:
            weights = [(w, each.share) for each in undone if (w := each.weight()) is not None]
            found = regrown(weights, undone[0].since, step.caller())
            self._finding = (found, undone) if found is not None else None

    @property
    def findings(self) -> Iterator[Finding]:
        if self._finding is not None and all(each.is_regrown for each in self._finding[1]):
            yield self._finding[0]


def _state(weight: torch.Tensor) -> tuple[int, int]:
    """Return what changes when values are written, or when the program gives a parameter other memory."""
    return version(weight), weight.data_ptr()


def _sample(weight: torch.Tensor) -> torch.Tensor:
    flat = weight.detach().reshape(-1)
    return flat[:: max(1, len(flat) // _VALUES)]
