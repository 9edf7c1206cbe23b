"""Where hypotheses about a gradient are entered, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from backsight.verification.manual.hypotheses.wrong_step import wrong_step
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


STEPS = 5
"""The rank before which single steps are looked into."""


def explained(mistake: Mistake) -> tuple[str, Told]:
    """Return the code and the words of the first hypothesis that fits; the last one always does."""
    told = _first(mistake, range(STEPS)) or wrong_step(mistake) or _first(mistake, range(STEPS, 1 + max(HYPOTHESES)))
    assert told is not None
    return told


def _first(mistake: Mistake, ranks: range) -> tuple[str, Told] | None:
    ordered = (each for rank in ranks for each in HYPOTHESES.get(rank, []))
    return next(((code, told) for code, function in ordered if (told := function(mistake))), None)
