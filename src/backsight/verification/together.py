"""`together`: one finding of those that one mistake makes for several inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from backsight.findings.evidence import Fact
from backsight.verification.case import Case
from backsight.verification.hypotheses import EveryEntry, also
from backsight.verification.report import WrongGradient
from backsight.verification.steps import Found
from backsight.verification.wording import listed

APART = frozenset({"BS400", "BS409", "BS417", "BS419"})
"""What is said of each input for itself: it has no cause, or another one for each."""


class Told(NamedTuple):
    """A finding about the gradient of one input, with its case, and the mistake in a step that explains it."""

    finding: WrongGradient
    case: Case | None = None
    cause: Found | None = None


def together(told: Iterable[Told]) -> list[WrongGradient]:
    """Make one finding of those that say the same of several inputs of one call."""
    groups: dict[tuple[str, ...], list[WrongGradient]] = {}
    for each in _alike(list(told)):
        same = next((key for key, group in groups.items() if _is_same(group[0], each.finding)), _said(each.finding))
        groups.setdefault(same, []).append(each.finding)
    return [_of_all(group) for group in groups.values()]


def _alike(told: list[Told]) -> list[Told]:
    """Say the same of two gradients that one mistake explains, where two were found."""
    for k, (finding, case, cause) in enumerate(told):
        others = [*told[:k], *told[k + 1 :]]
        if case is None or cause is None or any(_said(finding) == _said(each.finding) for each in others):
            continue
        for other in others:
            if other.cause is not None and (same := also(case, other.cause)) is not None:
                said = replace(finding, code=same.code, title=same.title, evidence=same.evidence, fix=same.fix)
                told[k] = Told(said, case, same.cause)
                break
    return told


def _said(finding: WrongGradient) -> tuple[str, ...]:
    """What a finding says, without the name of its input."""
    name = f"`{finding.input}`"
    whose = finding.input if finding.code in APART or not finding.input or finding.title.count(name) != 1 else ""
    return finding.code, finding.title.replace(name, "``"), (finding.fix or "").replace(name, "``"), whose


def _is_same(a: WrongGradient, b: WrongGradient) -> bool:
    """Whether two findings say the same in the same words, as of gradients in the wrong order each does."""
    return (a.code, a.title, a.evidence) == (b.code, b.title, b.evidence)


def _of_all(group: list[WrongGradient]) -> WrongGradient:
    first, *others = group
    if not others or not first.input:
        return first
    if all(_is_same(first, each) for each in others):
        return replace(first, input=", ".join(each.input for each in group))
    name, names = f"`{first.input}`", listed([each.input for each in group])
    known = {_plain(first, line) for line in first.evidence}
    same = [each.input for each in others if {_plain(each, line) for line in each.evidence} == known]
    added = [f"It is the same for {listed(same)}."] if same else []
    for each in others:
        if each.input not in same:
            added += [f"For `{each.input}`: {line}" for line in each.evidence if _plain(each, line) not in known]
    return replace(
        first,
        title=first.title.replace(name, names),
        evidence=(*first.evidence, *added),
        fix=first.fix and first.fix.replace(name, names),
        input=", ".join(each.input for each in group),
    )


def _plain(finding: WrongGradient, fact: Fact) -> str:
    """Return a line of evidence without the name of the input, and without the values of an entry."""
    line = fact.claim if isinstance(fact, EveryEntry) else str(fact)
    return line.replace(f"`{finding.input}`", "``")
