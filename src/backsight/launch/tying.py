"""Parameters that a class ties, and whether they are one when the training begins."""

from __future__ import annotations

from dataclasses import replace

from backsight.diagnosis import Finding
from backsight.diagnosis.untied import untied
from backsight.launch.sign import Audit, Sign


class Tying(Sign):
    """Asks the first loss, before any step: later, what was one has moved apart."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def audited(self, audit: Audit) -> None:
        if not audit.number and not self._found and audit.report.graph is not None:
            self._found = [replace(each, since=1) for each in untied(audit.report.graph, audit.site[0])]
