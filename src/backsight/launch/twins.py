"""Networks that are to follow what is trained, and whether they do: looked for once, then read at each step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backsight.diagnosis import Finding
from backsight.diagnosis.aliased import own_average
from backsight.diagnosis.stale_copies import gathered, loads_the_start
from backsight.diagnosis.twins import Twin, computes_statistics, merged, never_follows, outdated, shared, twins
from backsight.launch.sign import Audit, Sign, Step

_FIRST = 1
_SEEN = 16
"""The step of the first optimizer at which they are looked for; and the first, for those that are soon one."""

_COMPARED = (_SEEN, 64, 256, 1024)
"""Steps at which it is looked for those that have the same parameters, while it is watched what writes them."""

_LOADED = 3
"""Looks at which a twin was changed, and has the values of the look before."""

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


@dataclass(slots=True)
class _Loaded:
    """How often a twin was changed in place, and that its values stayed the same all the while."""

    twin: Twin
    version: int
    values: tuple[object, ...]
    times: int = 0
    changes: int = 0
    finding: Finding | None = None

    @property
    def lasts(self) -> bool:
        return self.twin.target() is None or self.twin.values[1] == self.values


class Twins(Sign):
    """Follows the twins of what is trained, of which most programs have none."""

    def __init__(self) -> None:
        self._twins: list[Twin] = []
        self._early: list[Twin] = []
        self._pairs: list[Twin] = []
        self._suspects: list[_Suspect] = []
        self._since = 0
        self._shared: list[Finding] = []
        self._outdated: list[_Suspect] = []
        self._reached: set[int] = set()
        self._loaded: list[_Loaded] = []

    def audited(self, audit: Audit) -> None:
        leaves = audit.report.graph.leaves if audit.report.graph is not None else ()
        self._reached |= {id(held) for leaf in leaves if (held := leaf.tensor()) is not None}

    def each_step(self, step: Step) -> None:
        if self._suspects:
            self._suspects = [each for each in self._suspects if each.twin.is_unchanged]

    def run_doubled(self, step: Step) -> None:
        number = step.number
        if number == _FIRST:
            self._early = twins(step.optimizers)
        elif number == _SEEN:
            self._twins, self._since = twins(step.optimizers), number
            self._pairs = list(self._twins)
            self._loaded = [_Loaded(each, *each.values) for each in self._twins]
        elif self._loaded:
            self._look_at_loads(step)
        if number in _COMPARED and not self._shared:
            self._shared = shared(number, step.caller()) or own_average(step.optimizers, number, step.caller())
        if number > _SEEN and (pairs := [*self._early, *self._pairs]) and not self._shared:
            self._shared = merged(pairs, number, step.caller())
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
            for each in self._twins if not self._suspects else ():
                stale = gathered(each, self._reached, self._since, steps, step.caller())
                if stale is not None:
                    self._suspects = [_Suspect(each, stale)]
                    break

    def _look_at_loads(self, step: Step) -> None:
        """Look, at each doubling of the steps, which twins were changed in place and have the same values."""
        for each in self._loaded:
            version, values = each.twin.values
            same = bool(values) and values == each.values
            each.times = each.times + 1 if same and version > each.version else 0 if not same else each.times
            changes = version - each.version
            each.changes = each.changes + changes if same else 0
            each.version, each.values = version, values
            each.finding = None
            if each.times >= _LOADED:
                each.finding = loads_the_start(each.twin, self._since, each.changes, step.caller())

    @property
    def findings(self) -> list[Finding]:
        """What has not changed to the end."""
        late = [each.finding for each in self._outdated[:1] if each.twin.is_outdated or each.lasts]
        loaded = [each.finding for each in self._loaded if each.finding is not None and each.lasts]
        never = [each.finding for each in self._suspects if each.twin.is_unchanged]
        return [*self._shared, *never, *loaded[:1], *late]
