"""`Explanation`: how a gradient is wrong, in the words of a teacher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from backsight.findings import Severity
from backsight.findings.evidence import Evidence, Fact
from backsight.source import Place
from backsight.verification.case import Case
from backsight.verification.steps import Found
from backsight.verification.wording import number


@dataclass(frozen=True)
class Explanation:
    """What is wrong in one sentence, how we know, and what to do.

    `line` is where in backward, if that is known; `code` is that of the mistake where a hypothesis knows several, and
    `cause` the mistake itself, where other inputs may have the same.
    """

    title: str
    evidence: tuple[Fact, ...]
    fix: str
    line: Place | None = None
    severity: Severity = "error"
    code: str = ""
    cause: Found | None = None


@dataclass(frozen=True)
class EveryEntry(Evidence):
    """Evidence about every entry, with the values of one: `claim` is without them, so the same for every input."""

    claim: str = ""


@dataclass(frozen=True)
class Misshapen(Evidence):
    """Evidence about a gradient in another shape than that of its input: whose it is, and the shape that it has."""

    argument: str = ""
    shape: tuple[int, ...] = ()


def of_every_entry(case: Case, claim: str) -> EveryEntry:
    """Say what is so of every entry, with the largest of them."""
    draw = case.draws[0]
    largest = draw.right.abs().argmax()
    got, right = case.at(draw.got)[largest], draw.right[largest]
    return EveryEntry(f"{claim}; the largest is {number(got)} but must be {number(right)}.", claim=claim)


Hypothesis: TypeAlias = Callable[[Case], Explanation | None]
"""A function that explains a wrong gradient, or returns None where it does not fit."""
