"""Parameters whose gradients are zeros at each of some spaced looks, and where in a backward they become so."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.causes import GRADIENT_ENDS
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.hooked import zeroed
from backsight.diagnosis.stopped import compressed, stopped
from backsight.launch.sign import Sign, Step
from backsight.tape import is_captured
from backsight.tracing import Watch, find_stops, stops
from backsight.tracing.steps import parameters

_FIRST = 2
"""The step of an optimizer at which is looked first, and then at each doubling of them."""

_ENOUGH = 4
"""Looks at which a gradient has been zeros all along."""

_MOST = 3
"""Backwards that are looked at node by node: each costs milliseconds."""


@dataclass(slots=True)
class _Gradient:
    """What was seen of one parameter's gradient: at how many looks it was zeros, and since which step."""

    parameter: weakref.ref[torch.Tensor]
    looks: int = 0
    since: int = 0
    is_zero: bool = True


class Zeros(Sign):
    """Follows the gradients of each parameter; who was seen to have others is looked at no more."""

    def __init__(self) -> None:
        self._seen: dict[int, _Gradient] = {}
        self._findings: list[tuple[Finding, list[_Gradient]]] = []
        self.looks = 0
        self._lost: list[_Gradient] = []
        """Those of which no hook is known that zeroes them."""

    def doubled(self, step: Step) -> None:
        if step.steps < _FIRST or is_captured():
            return
        for parameter in parameters(step.optimizer):
            known = self._of(parameter, step.number)
            if known.is_zero and (gradient := parameter.grad) is not None:
                known.is_zero = is_zero(gradient) is True
                known.looks += 1
        lasting = [each for each in self._seen.values() if each.is_zero and each.looks >= _ENOUGH]
        held = [(p, each) for each in lasting if (p := each.parameter()) is not None and p.requires_grad]
        self._findings = []
        self.looks += 1
        if held:
            found = zeroed([p for p, _ in held], min(each.since for _, each in held), step.caller())
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


class Stopping(Sign):
    """Asks the watch for a closer look where `zeros` have lasted, and tells what it has seen."""

    def __init__(self, watch: Watch, zeros: Zeros) -> None:
        self._watch, self._zeros = watch, zeros
        self._asked = self._looks = 0
        self._finding: Finding | None = None

    def each_step(self, step: Step) -> None:
        zeros = self._zeros
        if self._asked and self._finding is None and (found := stops(self._watch)):
            self._finding = stopped(zeros.lost, zeros.trained, found, self._watch, zeros.since)
        if not zeros.lost or self._finding is not None or self._looks == zeros.looks or self._asked >= _MOST:
            return
        if self._asked and not zeros.trained and not stops(self._watch):
            self._finding = compressed(zeros.lost, zeros.since, step.caller())
        self._looks, self._asked = zeros.looks, self._asked + 1
        find_stops(self._watch)
        step.news = True

    def told(self, known: Sequence[Finding]) -> list[Finding]:
        """Return what has held to the end, if nothing else tells it."""
        lasts = self._finding is not None and self._zeros.last() and not GRADIENT_ENDS.is_explained(known)
        return [self._finding] if lasts and self._finding is not None else []


def _holds(known: _Gradient) -> bool:
    parameter = known.parameter()
    gradient = parameter.grad if parameter is not None else None
    return gradient is None or is_zero(gradient) is not False
