"""A finding for programs: plain data, of a shape that stays (docs/json.md)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from backsight.findings.evidence import Evidence, evidence_of
from backsight.findings.printing.excerpt import is_at
from backsight.source import Place

if TYPE_CHECKING:
    from backsight.findings.finding import Finding


def to_data(finding: Finding) -> dict[str, Any]:
    """Return a finding as what `json.dumps` takes."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "title": finding.title,
        "fix": finding.fix,
        "cure": finding.fix,  # the old name, until the next release
        "exact": finding.exact,
        "since": finding.since,
        "source": _source(finding),
        "evidence": [_evidence(evidence_of(each)) for each in finding.evidence],
    }


def _source(finding: Finding) -> dict[str, Any] | None:
    if finding.source is None:
        return None
    places = (each.place for each in map(evidence_of, finding.evidence) if each.place is not None)
    at = next((place for place in places if is_at(place, finding.source)), None)
    return {
        "text": finding.source,
        **(_place(at) if at is not None else {"file": None, "line": None, "end_line": None}),
    }


def _evidence(each: Evidence) -> dict[str, Any]:
    about = {} if each.place is None else {**_place(each.place), "code": each.place.text, "says": each.text}
    return {"text": str(each), "certainty": each.certainty, **about}


def _place(place: Place) -> dict[str, Any]:
    file = place.file if place.file.startswith("<") else os.path.abspath(place.file)
    return {"file": file, "line": place.line, "end_line": place.last}
