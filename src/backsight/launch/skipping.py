"""A training in which no optimizer ever makes a step, because a gradient scaler skips them all."""

from __future__ import annotations

from collections.abc import Sequence

from backsight.diagnosis import Finding
from backsight.diagnosis.evidence.singular import Singular, singular
from backsight.diagnosis.rules.unmoved import Scaled, never_stepped, scaled
from backsight.launch.sign import Audit, Sign, Step
from backsight.tracing import Watch

_MANY = 20
"""Backward passes without a step: a scaler finds its scale in fewer, halving it from 65,536."""


class Skipping(Sign):
    """Looks for a scaler at the first loss, and tells of it at the end, if there was no step."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._steps = False
        self._scaled: Scaled | None = None
        self._singular: list[Singular] = []

    def run_doubled(self, step: Step) -> None:
        self._steps = True

    def audited(self, audit: Audit) -> None:
        if not self._steps and self._scaled is None:
            self._scaled = scaled(audit.site)
        if not self._steps and self._scaled is not None and (graph := audit.report.graph) is not None:
            self._singular = list(dict.fromkeys([*self._singular, *singular(graph)]))

    def told(self, known: Sequence[Finding]) -> list[Finding]:
        backwards = len(self._watch.backwards) if self._scaled is not None and not self._steps else 0
        if self._scaled is None or backwards < _MANY:
            return []
        return [never_stepped(self._scaled, backwards, self._singular)]
