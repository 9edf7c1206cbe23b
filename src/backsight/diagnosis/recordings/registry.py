"""Where rules for recordings are entered, by code."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.registry import Rules

Rule = Callable[[Recording], Iterable[Finding]]

RULES: Rules[Recording] = Rules()

rule = RULES.enter
