"""What the score prints beside its table."""

from __future__ import annotations

import re
from pathlib import Path

from score import concrete, first_contact, rounds

from backsight import Finding
from backsight.source.edits import lines_of, remove

PAGE = Path(__file__).parents[2] / "docs" / "diagnosis.md"


def _round(what: str, date: str, *counts: int) -> dict[str, str]:
    names = ("programs", "complete", "partial", "nothing", "wrong")
    return {"what": what, "date": date, **{name: str(count) for name, count in zip(names, counts, strict=True)}}


def test_the_newest_round_of_errors_is_told() -> None:
    assert first_contact(
        [
            _round("errors, new programs", "2026-03-01", 20, 15, 4, 1, 0),
            _round("errors, new programs", "2026-03-02", 40, 30, 6, 3, 1),
            _round("silent faults, new programs", "2026-03-02", 30, 10, 6, 13, 1),
        ]
    ) == ("first contact, errors, new programs (2026-03-02): 30 of 40 complete (75%), 6 in part, 3 not, 1 wrong")


def test_the_counts_of_a_round_make_up_its_programs() -> None:
    for each in rounds():
        parts = [int(each[name]) for name in ("complete", "partial", "nothing", "wrong")]
        assert sum(parts) == int(each["programs"]), each


def test_the_page_shows_rounds_as_they_were() -> None:
    """The newest round of errors is among them."""
    told = {(each["what"], each["date"], *list(each.values())[2:]) for each in rounds()}
    rows = re.findall(
        r"^\| (.+?) \| (\d{4}-\d\d-\d\d) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$",
        PAGE.read_text(encoding="utf-8"),
        re.M,
    )
    assert rows
    assert set(rows) <= told
    newest = next(each for each in reversed(rounds()) if each["what"].startswith("errors"))
    assert (newest["what"], newest["date"], *list(newest.values())[2:]) in rows


def test_fixes_that_are_edits_are_counted() -> None:
    edits = ((remove(lines_of("train.py", 3)),),)
    findings = [Finding("BS201", "error", "It fails.", edits=each) for each in (edits, (), edits)]
    assert concrete(findings) == "edits: 2 of 3 fixes say what to write, and where (67%)"
