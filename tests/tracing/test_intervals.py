"""Which site a sequence number belongs to: the table that a watch keeps of each thread."""

import pytest

from backsight.tracing.intervals import Intervals


@pytest.fixture
def table() -> Intervals:
    """The numbers 10 and 11 of one site, 15 of another; nobody is known to have made 12 to 14."""
    table = Intervals()
    table.add(10, 12, 0)
    table.add(15, 16, 1)
    return table


def test_an_interval_ends_before_its_end(table: Intervals) -> None:
    assert [table.at(number) for number in range(9, 17)] == [None, 0, 0, None, None, None, 1, None]


def test_what_one_site_makes_without_a_gap_is_one_interval(table: Intervals) -> None:
    table.add(16, 18, 1)
    table.add(18, 19, 0)
    table.add(20, 21, 0)
    assert list(zip(table.first, table.end, table.site, strict=True)) == [
        (10, 12, 0),
        (15, 18, 1),
        (18, 19, 0),
        (20, 21, 0),
    ]
