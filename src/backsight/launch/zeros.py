"""Parameters whose gradients are zeros at each of some spaced looks; who was seen otherwise is looked at no more."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.zeroed import zeroed
from backsight.tape import is_captured
from backsight.tracing.steps import parameters

_FIRST = 2
"""The step of an optimizer at which is looked first, and then at each doubling of them."""

_ENOUGH = 4
"""Looks at which a gradient has been zeros all along."""


@dataclass(slots=True)
class _Gradient:
    """What was seen of one parameter's gradient: at how many looks it was zeros, and since which step."""

    parameter: weakref.ref[torch.Tensor]
    looks: int = 0
    since: int = 0
    is_zero: bool = True


class Zeros:
    """Follows the gradients of each parameter."""

    def __init__(self) -> None:
        self._seen: dict[int, _Gradient] = {}
        self._findings: list[tuple[Finding, list[_Gradient]]] = []
        self.looks = 0
        self._lost: list[_Gradient] = []
        """Those of which no hook is known that zeroes them."""

    def stepped(self, optimizer: torch.optim.Optimizer, steps: int, step: int, caller: Callable[[], FrameType]) -> None:
        """Note a step of an optimizer, its `steps`-th and the `step`-th of the run."""
        if steps < _FIRST or steps & (steps - 1) or is_captured():
            return
        for parameter in parameters(optimizer):
            known = self._of(parameter, step)
            if known.is_zero and (gradient := parameter.grad) is not None:
                known.is_zero = is_zero(gradient) is True
                known.looks += 1
        lasting = [each for each in self._seen.values() if each.is_zero and each.looks >= _ENOUGH]
        held = [(p, each) for each in lasting if (p := each.parameter()) is not None and p.requires_grad]
        self._findings = []
        self.looks += 1
        if held:
            found = zeroed([p for p, _ in held], min(each.since for _, each in held), caller())
            self._findings = [(each, lasting) for each in found]
        self._lost = [] if self._findings else [each for _, each in held]

    def may_be_zero(self, parameter: torch.Tensor | None) -> bool:
        """Whether no gradient of a parameter was seen that is not zeros."""
        known = self._seen.get(id(parameter))
        return known is None or known.parameter() is not parameter or known.is_zero

    @property
    def lost(self) -> list[torch.Tensor]:
        """The parameters whose gradients were zeros at every look, if it is not known why."""
        return [p for each in self._lost if (p := each.parameter()) is not None]

    @property
    def trained(self) -> list[torch.Tensor]:
        """The others."""
        return [p for each in self._seen.values() if not each.is_zero and (p := each.parameter()) is not None]

    @property
    def since(self) -> int:
        """The step since which they are."""
        return min((each.since for each in self._lost), default=0)

    def last(self) -> bool:
        """Whether what was lost at the latest look still is."""
        return bool(self._lost) and all(map(_holds, self._lost))

    @property
    def findings(self) -> Iterator[Finding]:
        """What has held to the end."""
        return (found for found, held in self._findings if all(map(_holds, held)))

    def _of(self, parameter: torch.Tensor, step: int) -> _Gradient:
        known = self._seen.get(id(parameter))
        if known is None or known.parameter() is not parameter:
            known = self._seen[id(parameter)] = _Gradient(weakref.ref(parameter), since=step)
        return known


def _holds(known: _Gradient) -> bool:
    parameter = known.parameter()
    gradient = parameter.grad if parameter is not None else None
    return gradient is None or is_zero(gradient) is not False
