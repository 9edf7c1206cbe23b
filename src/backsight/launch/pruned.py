"""Weights that the program sets to zero between two steps, and whether they stay so."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.rewritten import is_single, regrown
from backsight.launch.sign import Sign
from backsight.tape import Living, is_captured
from backsight.tape import version as count
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
    """What is known of one weight before a step.

    How often it was changed, and how often since the step before; and where it had zeros when there were more.
    """

    weight: weakref.ref[torch.Tensor]
    version: int
    place: int
    share: float
    changes: int = -1
    zeros: torch.Tensor | None = None
    since: int = 0
    times: int = 0
    is_new: bool = False
    """Whether there was no step since."""
    is_undone: bool = False
    is_single: bool = False
    """Whether the program does this at one place, once, and not again at its end."""

    @property
    def is_regrown(self) -> bool:
        """Whether what was set to zero no longer is; of a weight that is gone, as of its last step."""
        weight = self.weight()
        if weight is None and not self.is_single:
            return False
        return self.is_undone and self.times <= _FEW and (weight is None or self.left(weight) < 0.5)

    def left(self, weight: torch.Tensor) -> float:
        """Return which share of what was set to zero is zero now."""
        return float((_sample(weight) == 0)[self.zeros].float().mean()) if self.zeros is not None else 1.0

    def is_changed(self, weight: torch.Tensor) -> bool:
        """Whether something else than a step may have changed it: it was changed more or less often than before."""
        changes, place = version(weight) - self.version, weight.data_ptr()
        is_other = place != self.place or (changes > 0 <= self.changes != changes)
        self.changes = changes or self.changes
        self.version, self.place = self.version + changes, place
        return is_other


class Pruned(Sign):
    """Reads versions before each step, and values where the program may have changed some since the step before."""

    def __init__(self) -> None:
        self._weights: Living[list[_Weight]] = Living()
        self._of: dict[int, _Weight] = {}
        self._looks = 0
        self._finding: tuple[Finding, list[_Weight]] | None = None

    def stepping(
        self, optimizer: torch.optim.Optimizer, key: int, number: int, caller: Callable[[], FrameType]
    ) -> None:
        """Note that an optimizer is about to make a step, after a number of others."""
        if self._looks >= _LOOKS:
            return
        known = self._weights.at(key)
        if known is None:
            if is_captured():
                return
            known = list(self._followed(optimizer))
            self._weights.put(key, optimizer, known)
        undone = []
        for each in known:
            weight = each.weight()
            if weight is None:
                continue
            expected = each.version + each.changes
            if count(weight) == expected and weight.data_ptr() == each.place and each.changes > 0 and not each.is_new:
                each.version = expected  # changed as often as between the steps before, and where it lay
                continue
            if each.is_new and not is_captured() and each.left(weight) < 0.5:
                each.is_undone = True
                undone.append(each)
            each.is_new = False
            if each.is_changed(weight) and not is_captured():
                self._look(each, weight, number)
        if undone and self._finding is None:
            self._tell(undone, caller())

    def _look(self, known: _Weight, weight: torch.Tensor, number: int) -> None:
        self._looks += 1
        zeros = _sample(weight) == 0
        share = float(zeros.float().mean())
        if share < 1.0 and (share >= known.share + _SHARE or (known.zeros is not None and share >= _SHARE)):
            known.zeros, known.times, known.is_undone = zeros, known.times + 1, False
            known.since, known.share, known.is_new = number, share, True
        elif known.zeros is None:
            known.share = share

    def _tell(self, undone: list[_Weight], frame: FrameType) -> None:
        weights = [(w, each.share) for each in undone if (w := each.weight()) is not None]
        found = regrown(weights, undone[0].since + 1, frame)
        for each in undone:
            each.is_single = is_single(frame)
        self._finding = (found, undone) if found is not None else None

    def _followed(self, optimizer: torch.optim.Optimizer) -> Iterator[_Weight]:
        """Yield the weights of a new optimizer; of those that another one has trained, what is known already."""
        found = [
            p
            for p in parameters(optimizer)
            if p.dim() > 1 and is_readable(p) and p.layout == torch.strided and version(p) >= 0
        ]
        for each in found[:_MOST]:
            known = self._of.get(id(each))
            if known is None or known.weight() is not each:
                if len(self._of) >= _MOST_KNOWN:
                    self._of.clear()
                share = float((_sample(each) == 0).float().mean())
                known = _Weight(weakref.ref(each), version(each), each.data_ptr(), share)
                self._of[id(each)] = known
            yield known

    @property
    def findings(self) -> Iterator[Finding]:
        if self._finding is not None and all(each.is_regrown for each in self._finding[1]):
            yield self._finding[0]


def _sample(weight: torch.Tensor) -> torch.Tensor:
    flat = weight.detach().reshape(-1)
    return flat[:: max(1, len(flat) // _VALUES)]
