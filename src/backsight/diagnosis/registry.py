"""Rules by code: functions from what they look at to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from backsight.diagnosis.finding import Finding

Seen = TypeVar("Seen")


class Rules(dict[str, Callable[[Seen], Iterable[Finding]]]):
    """The rules that look at one kind of thing, in the order of their codes."""

    def enter(self, code: str) -> Callable[[Callable[[Seen], Iterable[Finding]]], Callable[[Seen], Iterable[Finding]]]:
        """Enter the decorated function as the rule with this code; a ValueError if that is taken."""

        def enter(function: Callable[[Seen], Iterable[Finding]]) -> Callable[[Seen], Iterable[Finding]]:
            if code in self:
                raise ValueError(f"two rules have the code {code}: {self[code].__name__} and {function.__name__}.")
            self[code] = function
            return function

        return enter
