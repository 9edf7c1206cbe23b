"""`Explanation`: how a gradient is wrong, in the words of a teacher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from backsight.findings import Severity
from backsight.source import Place
from backsight.verification.case import Case
from backsight.verification.steps import Found


@dataclass(frozen=True)
class Explanation:
    """What is wrong in one sentence, how we know, and what to do.

    `line` is where in backward, if that is known; `code` is that of the mistake where a hypothesis knows several, and
    `cause` the mistake itself, where other inputs may have the same.
    """

    title: str
    evidence: tuple[str, ...]
    fix: str
    line: Place | None = None
    severity: Severity = "error"
    code: str = ""
    cause: Found | None = None


Hypothesis: TypeAlias = Callable[[Case], Explanation | None]
"""A function that explains a wrong gradient, or returns None where it does not fit."""
