"""Where rules for recordings are entered, by code."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.recording import Recording

Rule = Callable[[Recording], Iterable[Finding]]

RULES: dict[str, Rule] = {}


def rule(code: str) -> Callable[[Rule], Rule]:
    """Enter the decorated function as the rule with this code."""

    def enter(function: Rule) -> Rule:
        if code in RULES:
            raise ValueError(f"two rules have the code {code}: {RULES[code].__name__} and {function.__name__}.")
        RULES[code] = function
        return function

    return enter
