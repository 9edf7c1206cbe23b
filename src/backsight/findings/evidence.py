"""`Evidence`: one thing that a finding rests on, the statement that it is about, and how certain it is."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from backsight.source import Place
from backsight.source.cells import cell
from backsight.text import listed

Certainty = Literal["seen", "held", "read"]
"""How something is known: "seen" by a watch as it happened; "held": what objects, counters and frames hold proves it;
"read": the source text says so, and whether it ran like that was not seen."""


@dataclass(frozen=True)
class Evidence:
    """One thing that a finding rests on; `str()` is all of it as text.

    >>> print(Evidence("frees the graph.", Place("train.py", 41, "loss.backward()")))
    train.py:41  loss.backward()
        frees the graph.

    text: what is so, or, of a statement, what it does.
    place: the statement; its text is empty where the source cannot be read.
    certainty: how it is known. Doubt is not for the text to express: who shows a finding says what was only read.
    """

    text: str
    place: Place | None = None
    certainty: Certainty = "held"

    def __str__(self) -> str:
        if self.place is None:
            return self.text
        code = self.place.text
        return f"{_name(self.place)}  {code}\n    {self.text}" if code else f"{_name(self.place)}  {self.text}"


Fact = Evidence | str
"""A line of evidence: text alone is about no statement, and held to be so."""


def evidence_of(fact: Fact) -> Evidence:
    return fact if isinstance(fact, Evidence) else Evidence(fact)


def as_read(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Return evidence whose statements no watch has seen as what the source text says."""
    return tuple(
        replace(fact, certainty="read") if isinstance(fact, Evidence) and fact.place and not fact.place.seen else fact
        for fact in facts
    )


def doubt(facts: Iterable[Fact]) -> str:
    """Return the sentence that says what was only read; empty if nothing was.

    >>> doubt([Evidence("counts.", here), Evidence("draws another number.", there, "read")])
    '(Inferred from the source text: line 12.)'
    """
    every = [evidence_of(fact) for fact in facts]
    read = [each for each in every if each.certainty == "read"]
    places = list(dict.fromkeys(each.place for each in read if each.place is not None))
    if not read:
        return ""
    if not places or all(each.certainty == "read" or each.place is None for each in every):
        return "(Inferred from the source text.)"
    if len({each.place.file for each in every if each.place is not None}) > 1:
        return f"(Inferred from the source text: {listed([_name(place) for place in places])}.)"
    lines = sorted({place.line for place in places})
    return f"(Inferred from the source text: {'line' if len(lines) == 1 else 'lines'} {listed(list(map(str, lines)))}.)"


def _name(place: Place) -> str:
    return f"{cell(place.file) or os.path.basename(place.file)}:{place.line}"
