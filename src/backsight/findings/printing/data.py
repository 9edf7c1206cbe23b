"""A finding for programs: plain data, of a shape that stays (docs/json.md)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from backsight.findings.located import Located
from backsight.findings.printing.excerpt import is_at

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
        "source": _source(finding),
        "evidence": [_evidence(each) for each in finding.evidence],
    }


def _source(finding: Finding) -> dict[str, Any] | None:
    if finding.source is None:
        return None
    at = next((e for e in finding.evidence if isinstance(e, Located) and is_at(e, finding.source)), None)
    return {
        "text": finding.source,
        **(_place(at) if at is not None else {"file": None, "line": None, "end_line": None}),
    }


def _evidence(each: str) -> dict[str, Any]:
    if isinstance(each, Located):
        return {"text": str(each), **_place(each), "code": each.code, "says": each.says}
    return {"text": each}


def _place(each: Located) -> dict[str, Any]:
    file = each.file if each.file.startswith("<") else os.path.abspath(each.file)
    return {"file": file, "line": each.line, "end_line": each.end}
