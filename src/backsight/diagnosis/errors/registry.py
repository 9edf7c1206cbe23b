"""Where explanations are entered: by code, with a pattern of PyTorch's message."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.finding import UNKNOWN, Finding, Severity
from backsight.diagnosis.wording import failing
from backsight.findings.evidence import Fact
from backsight.source import Place
from backsight.story.failure import Failure
from backsight.tracing import Line

Explains = Callable[[Failure, "re.Match[str]"], Finding]
Applies = Callable[[BaseException], bool]


@dataclass(frozen=True)
class Known:
    """An error that can be explained: its code, the pattern of its message, and who explains it.

    `applies` looks closer at an error whose message alone does not tell that it is one of these.
    """

    code: str
    pattern: re.Pattern[str]
    explain: Explains
    applies: Applies | None = None
    severity: Severity = "error"


ERRORS: list[Known] = []


def explanation(
    title: str,
    evidence: Iterable[Fact | None] = (),
    fix: str = "",
    source: Place | Line | str | None = None,
    *,
    exact: bool = True,
    harmless: bool = False,
) -> Finding:
    """Return what an explanation has to say, of the evidence what there is; its code and severity are those that it
    was entered with. It is a note if it is `harmless`: if nothing is lost.
    """
    known = tuple(each for each in evidence if each is not None)
    return Finding("", "note" if harmless else "error", title, known, fix, str(source) if source else None, exact)


def unlocated(failure: Failure, title: str, says: str, fix: str) -> Finding:
    """Return what there is to say where only the message is at hand; `says` what the failing line does."""
    return explanation(title, failing(failure, says), fix, failure.source, exact=False)


def refusal(
    found: Refusal,
    title: str,
    evidence: Iterable[Fact | None],
    fix: str,
    source: Place | None = None,
    *,
    exact: bool = True,
) -> Finding:
    """Return what explains an error that has no code of its own; the failing line is to blame where no other is."""
    return replace(explanation(title, evidence, fix, source or found.level.place, exact=exact), code=UNKNOWN)


def explains(
    code: str, *patterns: str, when: Applies | None = None, severity: Severity = "error"
) -> Callable[[Explains], Explains]:
    """Enter the decorated function as the explanation of errors whose message fits one of `patterns`.

    `when` decides where the message alone does not tell.
    """

    def enter(function: Explains) -> Explains:
        if any(known.code == code for known in ERRORS):
            raise ValueError(f"the code {code} is taken; {function.__name__} needs another.")
        ERRORS.extend(Known(code, re.compile(pattern, re.DOTALL), function, when, severity) for pattern in patterns)
        return function

    return enter


def known(message: str, error: BaseException | None = None) -> tuple[Known, re.Match[str]] | None:
    """Return the entry whose pattern fits `message`, with the match; `error` is what has it."""
    fitting = ((each, match) for each in ERRORS if (match := each.pattern.search(message)))
    return next((found for found in fitting if _applies(found[0], error)), None)


def _applies(entry: Known, error: BaseException | None) -> bool:
    return entry.applies is None or (error is not None and entry.applies(error))
