"""Counts, lists and sizes as all rooms say them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backsight.text import amount, counted, listed, size


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 KB"), (1536, "1.5 KB"), (3 * 2**30, "3 GB"), (-2048, "-2 KB")],
)
def test_a_size_is_short(count: int, said: str) -> None:
    assert size(count) == said


@given(st.integers(2**10, 2**49))
def test_an_amount_has_three_figures_and_is_near(count: int) -> None:
    number, unit = amount(count).split(" ")
    assert len(number.replace(".", "")) == 3
    scale = {"KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}[unit]
    assert float(number) * scale == pytest.approx(count, rel=6e-3)


@pytest.mark.parametrize(("count", "said"), [(0, "0 steps"), (1, "1 step"), (1200, "1,200 steps")])
def test_what_is_counted(count: int, said: str) -> None:
    assert counted(count, "step") == said


@pytest.mark.parametrize(
    ("items", "limit", "said"),
    [
        ([], None, ""),
        (["a"], None, "a"),
        (["a", "b"], None, "a and b"),
        (["a", "b", "c"], None, "a, b and c"),
        (["a", "b", "c"], 2, "a, b and 1 more"),
        (["a", "b", "c"], 3, "a, b and c"),
    ],
)
def test_a_list_reads_as_in_a_sentence(items: list[str], limit: int | None, said: str) -> None:
    assert listed(items, limit) == said
