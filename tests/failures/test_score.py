"""What the score prints beside its table."""

from __future__ import annotations

from score import PAGE, first_contact

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


def test_the_page_has_such_a_round() -> None:
    assert first_contact(PAGE.read_text(encoding="utf-8")).startswith("first contact, errors")
