"""Where hypotheses about a gradient are entered, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from backsight.verification.manual.mistake import Mistake, Told

Hypothesis: TypeAlias = Callable[[Mistake], Told | None]

HYPOTHESES: dict[int, list[tuple[str, Hypothesis]]] = {}
"""Code and function by rank: shapes come before values, values before steps that may be missing, and these before
what only says which entries are wrong."""


def hypothesis(code: str, rank: int) -> Callable[[Hypothesis], Hypothesis]:
    """Enter a hypothesis under the code of what it explains."""

    def enter(function: Hypothesis) -> Hypothesis:
        HYPOTHESES.setdefault(rank, []).append((code, function))
        return function

    return enter


def explained(mistake: Mistake) -> tuple[str, Told]:
    """Return the code and the words of the first hypothesis that fits; the last one always does."""
    ordered = (each for rank in sorted(HYPOTHESES) for each in HYPOTHESES[rank])
    return next((code, told) for code, function in ordered if (told := function(mistake)))
