"""Gradients that are zeros at each look: one backward is looked at node by node, for where they become so."""

from __future__ import annotations

from backsight.diagnosis import Finding
from backsight.diagnosis.stopped import stopped
from backsight.launch.zeros import Zeros
from backsight.tracing import Watch, find_stops, stops

_MOST = 3
"""Backwards that are looked at so: each costs milliseconds."""


class Stopping:
    """Asks the watch for a closer look where `zeros` have lasted, and tells what it has seen."""

    def __init__(self, watch: Watch, zeros: Zeros) -> None:
        self._watch, self._zeros = watch, zeros
        self._asked = self._looks = 0
        self._finding: Finding | None = None

    def stepped(self) -> bool:
        """Note an optimizer step; return whether the next one is to be watched closely."""
        zeros = self._zeros
        if self._asked and self._finding is None and (found := stops(self._watch)):
            self._finding = stopped(zeros.lost, zeros.trained, found, self._watch, zeros.since)
        if not zeros.lost or self._finding is not None or self._looks == zeros.looks or self._asked >= _MOST:
            return False
        self._looks, self._asked = zeros.looks, self._asked + 1
        find_stops(self._watch)
        return True

    @property
    def findings(self) -> list[Finding]:
        """What has held to the end."""
        return [self._finding] if self._finding is not None and self._zeros.last() else []
