"""What the score prints beside its table."""

from __future__ import annotations

from score import PAGE, concrete, first_contact

TABLE = """
| 23 November 2026 | programs | complete | partial | nothing | wrong |
| --- | --- | --- | --- | --- | --- |
| errors, new programs (1 March) | 20 | 15 | 4 | 1 | 0 |
| errors, new programs (2 March) | 40 | 30 | 6 | 3 | 1 |
| silent faults, new programs (2 March) | 30 | 10 | 6 | 13 | 1 |
"""


def test_the_newest_round_of_errors_is_told() -> None:
    assert first_contact(TABLE) == (
        "first contact, errors, new programs (2 March): 30 of 40 complete (75%), 6 in part, 3 not, 1 wrong"
    )


def test_fixes_that_are_edits_are_counted() -> None:
    fixes = ["On line 2, write `x = 1`.", "Look for a result that is computed once.", "Remove line 3."]
    assert concrete(fixes) == "edits: 2 of 3 fixes say what to write, and where (67%)"


def test_the_page_has_such_a_round() -> None:
    assert first_contact(PAGE.read_text(encoding="utf-8")).startswith("first contact, errors")
