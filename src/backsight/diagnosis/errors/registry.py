"""Where explanations are entered: by code, with a pattern of PyTorch's message."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from backsight.diagnosis.evidence.failure import Failure
from backsight.diagnosis.finding import Finding

Explanation = Callable[[Failure, "re.Match[str]"], Finding]


@dataclass(frozen=True)
class Known:
    """An error that can be explained: its code, the pattern of its message, and who explains it."""

    code: str
    pattern: re.Pattern[str]
    explain: Explanation


ERRORS: list[Known] = []


def explains(code: str, *patterns: str) -> Callable[[Explanation], Explanation]:
    """Enter the decorated function as the explanation of errors whose message fits one of `patterns`."""

    def enter(function: Explanation) -> Explanation:
        if any(known.code == code for known in ERRORS):
            raise ValueError(f"the code {code} is taken; {function.__name__} needs another.")
        ERRORS.extend(Known(code, re.compile(pattern, re.DOTALL), function) for pattern in patterns)
        return function

    return enter


def known(message: str) -> tuple[Known, re.Match[str]] | None:
    """Return the entry whose pattern fits `message`, with the match."""
    return next(((error, match) for error in ERRORS if (match := error.pattern.search(message))), None)
