"""Where rules are entered, by code."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.registry import Rules
from backsight.diagnosis.scene import Scene

Rule = Callable[[Scene], Iterable[Finding]]

RULES: Rules[Scene] = Rules()

rule = RULES.enter
