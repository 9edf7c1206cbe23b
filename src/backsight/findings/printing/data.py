"""A finding for programs: plain data, of a shape that stays (docs/json.md)."""

from __future__ import annotations

import os
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

from backsight.findings.evidence import Certainty, Evidence, evidence_of
from backsight.findings.printing.excerpt import shown_at
from backsight.source import Place
from backsight.source.edits import Alternative
from backsight.source.edits import from_data as edit_from_data

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
        "edits": [[{**asdict(each), "file": _file(each.file)} for each in edits] for edits in finding.edits],
    }


def from_data(held: Any) -> Finding | None:
    """Return a finding that was stored as plain data; None if that is not what it is."""
    from backsight.findings.finding import SEVERITIES, Finding

    if not isinstance(held, dict) or held.get("severity") not in SEVERITIES:
        return None
    source, facts, since = held.get("source"), held.get("evidence"), held.get("since")
    texts = [each for name in ("code", "title", "fix") if isinstance(each := held.get(name), str)]
    if len(texts) < 3 or not isinstance(facts, list) or not re.fullmatch(r"BS\d{3}", texts[0]):
        return None
    evidence = tuple(
        _evidence_from(each)
        for each in facts
        if isinstance(each, dict) and isinstance(each.get("text"), str) and each.get("certainty") in get_args(Certainty)
    )
    return Finding(
        texts[0],
        held["severity"],
        texts[1],
        evidence,
        texts[2],
        source=_source_from(source, evidence),
        exact=held.get("exact") is True,
        since=since if type(since) is int else None,
        edits=_edits(held.get("edits")),
    )


def _evidence_from(held: dict[str, Any]) -> Evidence:
    """Return evidence with its statement, where that is told as `_evidence` tells it; else the text alone."""
    file, line, last, code, says = (held.get(name) for name in ("file", "line", "end_line", "code", "says"))
    if isinstance(file, str) and isinstance(code, str) and isinstance(says, str) and type(line) is int and line > 0:
        place = Place(file, line, code, end=last if type(last) is int and line <= last else 0)
        return Evidence(says, place, held["certainty"])
    return Evidence(held["text"], None, held["certainty"])


def _source_from(held: Any, evidence: tuple[Evidence, ...]) -> str | None:
    """Return where it is, spelled as the statement among the evidence is in this folder; the text of before else."""
    if not isinstance(held, dict) or not isinstance(text := held.get("text"), str):
        return None
    for place in (each.place for each in evidence if each.place is not None):
        if (place.file, place.line) == (held.get("file"), held.get("line")):
            _, inside, function = text.partition(" in ")
            return f"{place}{inside}{function}"
    return text


def _edits(held: Any) -> tuple[Alternative, ...]:
    try:
        return tuple(tuple(map(edit_from_data, each)) for each in held or ())
    except (TypeError, ValueError):
        return ()


def _source(finding: Finding) -> dict[str, Any] | None:
    if finding.source is None:
        return None
    at = next(iter(shown_at(finding.evidence, finding.source)), None)
    return {
        "text": finding.source,
        **(_place(at) if at is not None else {"file": None, "line": None, "end_line": None}),
    }


def _evidence(each: Evidence) -> dict[str, Any]:
    about = {} if each.place is None else {**_place(each.place), "code": each.place.text, "says": each.text}
    return {"text": str(each), "certainty": each.certainty, **about}


def _place(place: Place) -> dict[str, Any]:
    return {"file": _file(place.file), "line": place.line, "end_line": place.last}


def _file(file: str) -> str:
    return file if file.startswith("<") else os.path.abspath(file)
