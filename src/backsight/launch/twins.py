"""Networks that are to follow what is trained, and whether they do: looked for once, then read at each step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backsight.diagnosis import Finding
from backsight.diagnosis.own_average import own_average
from backsight.diagnosis.twins import Twin, computes_statistics, merged, never_follows, outdated, shared, twins
from backsight.launch.sign import Sign, Step

_SEEN = 16
"""The step of the first optimizer at which they are looked for."""

_COMPARED = (_SEEN, 64)
"""Steps at which it is looked for those that have the same parameters, while it is watched what writes them."""

_TOLD = 128
"""The step at which those that have not changed by then are suspects; and again at each doubling."""


@dataclass(slots=True)
class _Suspect:
    twin: Twin
    finding: Finding
    is_never_mended: bool = False
    """Whether the program has nothing that computes it later, so what was seen holds for what is gone as well."""

    @property
    def lasts(self) -> bool:
        return self.is_never_mended and self.twin.target() is None


class Twins(Sign):
    """Follows the twins of what is trained, of which most programs have none."""

    def __init__(self) -> None:
        self._twins: list[Twin] = []
        self._pairs: list[Twin] = []
        self._suspects: list[_Suspect] = []
        self._since = 0
        self._shared: list[Finding] = []
        self._outdated: list[_Suspect] = []

    def each_step(self, step: Step) -> None:
        if self._suspects:
            self._suspects = [each for each in self._suspects if each.twin.is_unchanged]

    def run_doubled(self, step: Step) -> None:
        number = step.number
        if number == _SEEN:
            self._twins, self._since = twins(step.optimizers), number
            self._pairs = list(self._twins)
        if number in _COMPARED and not self._shared:
            self._shared = shared(number, step.caller()) or own_average(step.optimizers, number, step.caller())
        if number > _SEEN and self._pairs and not self._shared:
            self._shared = merged(self._pairs, number, step.caller())
        if number >= _TOLD and self._pairs:
            gone = [each for each in self._outdated if each.lasts]
            found = ((each, outdated(each, self._since, step.caller())) for each in self._pairs)
            new = [_Suspect(each, finding) for each, finding in found if finding is not None]
            never = bool(new) and not computes_statistics(step.caller())
            new = [each for each in new if never or each.twin.is_evaluated]  # an evaluation may set the mode back
            self._outdated = [*gone, *(replace(each, is_never_mended=never) for each in new)]
        if number >= _TOLD and self._twins:
            self._twins = [each for each in self._twins if each.is_unchanged]
            steps = number - self._since
            told = ((each, never_follows(each, self._since, steps, step.caller())) for each in self._twins)
            self._suspects = [_Suspect(each, finding) for each, finding in told if finding is not None]

    @property
    def findings(self) -> list[Finding]:
        """What has not changed to the end."""
        late = [each.finding for each in self._outdated[:1] if each.twin.is_outdated or each.lasts]
        return [*self._shared, *(each.finding for each in self._suspects if each.twin.is_unchanged), *late]
